"""Avro: the schemas of rows and events, and the codec that frames and names them."""
