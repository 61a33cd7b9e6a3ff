// A reader of walbridge's topics, written from docs/kafka.md alone: no packages, no broker.
//
//     node reader.mjs <conformance folder> <folder of Relation.avsc and Cut.avsc> [<file of records>]
//
// In: records.jsonl or the file that is named, records as Kafka held them, in any of the formats. Out: exit code 0 if every event, every whole transaction and the tables
// behind them are what events.jsonl, transactions.jsonl and tables.json say; else 1, with the first that differs.

import { readFileSync } from "node:fs";
import { join } from "node:path";

const [folder, schemaFolder, recordsName = "records.jsonl"] = process.argv.slice(2);
const lines = (name) => readFileSync(join(folder, name), "utf8").split("\n").filter(Boolean).map((l) => JSON.parse(l));
const jsonFile = (path) => JSON.parse(readFileSync(path, "utf8"));

// -- Avro: a schema to a function that reads a value ------------------------------------------------------------------

class Bytes {
  constructor(buffer, at) {
    this.buffer = buffer;
    this.at = at;
  }

  take(count) {
    if (count < 0 || this.at + count > this.buffer.length) throw new Error("a record that ends too early");
    this.at += count;
    return this.buffer.subarray(this.at - count, this.at);
  }

  long() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.take(1)[0];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return (value >> 1n) ^ -(value & 1n);
    }
  }

  int() {
    return Number(this.long());
  }
}

const PRIMITIVES = {
  null: () => null,
  boolean: (bytes) => bytes.take(1)[0] === 1,
  int: (bytes) => bytes.long(),
  long: (bytes) => bytes.long(),
  float: (bytes) => bytes.take(4).readFloatLE(),
  double: (bytes) => bytes.take(8).readDoubleLE(),
  bytes: (bytes) => Buffer.from(bytes.take(bytes.int())),
  string: (bytes) => bytes.take(bytes.int()).toString("utf8"),
};

// Of a column's value: what Postgres prints.
const LOGICAL = {
  decimal: (schema) => (value) => decimalText(value, schema.scale ?? 0),
  date: () => (value) => dateText(value),
  "timestamp-micros": () => (value) => timestampText(value) + "+00",
  "local-timestamp-micros": () => (value) => timestampText(value),
};

function readerOf(schema, named = new Map(), space = "") {
  if (Array.isArray(schema)) {
    const branches = schema.map((branch) => readerOf(branch, named, space));
    return (bytes) => branches[bytes.int()](bytes);
  }
  if (typeof schema === "string") {
    if (schema in PRIMITIVES) return PRIMITIVES[schema];
    const name = schema.includes(".") ? schema : `${space}.${schema}`;
    return (bytes) => named.get(name)(bytes);
  }
  if (schema.type === "record") {
    const inside = schema.namespace ?? space;
    const fields = [];
    const read = (bytes) => Object.fromEntries(fields.map(([name, of]) => [name, of(bytes)]));
    named.set(`${inside}.${schema.name}`, read);
    for (const field of schema.fields) fields.push([field.name, readerOf(field.type, named, inside)]);
    return read;
  }
  if (schema.type === "enum") return (bytes) => schema.symbols[bytes.int()];
  if (schema.type === "array") return blocks(readerOf(schema.items, named, space), (items) => items);
  if (schema.type === "map") {
    const values = readerOf(schema.values, named, space);
    return blocks((bytes) => [PRIMITIVES.string(bytes), values(bytes)], Object.fromEntries);
  }
  const read = readerOf(schema.type, named, space);
  const logical = LOGICAL[schema.logicalType]?.(schema);
  return logical ? (bytes) => logical(read(bytes)) : read;
}

function blocks(item, made) {
  return (bytes) => {
    const items = [];
    for (let count = bytes.int(); count !== 0; count = bytes.int()) {
      if (count < 0) {
        bytes.long(); // the block's size
        count = -count;
      }
      for (let n = 0; n < count; n += 1) items.push(item(bytes));
    }
    return made(items);
  };
}

// What a record begins with: the id of its schema, and where the Avro begins.
function frame(value) {
  if (value[0] === 0xc3 && value[1] === 0x01) return { id: value.subarray(2, 10).toString("hex"), at: 10 };
  if (value[0] === 0x00) return { id: `registry ${value.readInt32BE(1)}`, at: 5 };
  throw new Error("a value of no known framing");
}

function decode(read, value) {
  const bytes = new Bytes(value, frame(value).at);
  const record = read(bytes);
  if (bytes.at !== value.length) throw new Error("bytes left over behind a record");
  return record;
}

// -- JSON: the same records, with whole numbers as BigInt: beyond 2^53 as well ---------------------------------------------

const NUMBER = "\u0000"; // no text of Postgres has it

function parsed(text) {
  const marked = text.replace(/("(?:[^"\\]|\\.)*")|-?\d[\d.eE+-]*/g, (found, string) => string ?? `"\\u0000${found}"`);
  const number = (digits) => (/^-?\d+$/.test(digits) ? BigInt(digits) : Number(digits));
  return JSON.parse(marked, (_, each) => (typeof each === "string" && each[0] === NUMBER ? number(each.slice(1)) : each));
}

// A value in JSON to what the reader of the same Avro type gives.
function fromJson(schema) {
  if (Array.isArray(schema)) {
    const value = fromJson(schema.find((branch) => branch !== "null"));
    return (found) => (found === null ? null : value(found));
  }
  if (schema.logicalType === "decimal") return (found) => found;
  if (schema.logicalType in LOGICAL) return LOGICAL[schema.logicalType](schema);
  if (schema.type === "array") {
    const item = fromJson(schema.items);
    return (found) => found.map(item);
  }
  return (schema.type ?? schema) === "bytes" ? (found) => Buffer.from(found, "base64") : (found) => found;
}

function rowFromJson(fields) {
  const values = columnsOf(fields).map((field) => [field.name, field["pg.name"], fromJson(field.type)]);
  return (found) => found && Object.fromEntries(values.map(([name, column, of]) => [name, of(found[column])]));
}

// -- values as Postgres prints them -------------------------------------------------------------------------------------

function decimalText(bytes, scale) {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  value = BigInt.asIntN(8 * bytes.length, value);
  const digits = (value < 0n ? -value : value).toString().padStart(scale + 1, "0");
  const whole = digits.slice(0, digits.length - scale);
  return (value < 0n ? "-" : "") + whole + (scale ? "." + digits.slice(digits.length - scale) : "");
}

const floorDiv = (a, b) => (a - (((a % b) + b) % b)) / b;
const padded = (value, length) => String(value).padStart(length, "0");

function dateText(days) {
  const date = new Date(Number(days) * 86_400_000);
  return `${padded(date.getUTCFullYear(), 4)}-${padded(date.getUTCMonth() + 1, 2)}-${padded(date.getUTCDate(), 2)}`;
}

function timestampText(micros) {
  const day = 86_400_000_000n;
  const days = floorDiv(micros, day);
  const rest = micros - days * day;
  const seconds = rest / 1_000_000n;
  const part = padded(rest % 1_000_000n, 6).replace(/0+$/, "");
  const clock = [seconds / 3600n, (seconds / 60n) % 60n, seconds % 60n].map((each) => padded(each, 2)).join(":");
  return `${dateText(days)} ${clock}${part ? "." + part : ""}`;
}

function text(value) {
  if (value === null) return null;
  if (typeof value === "boolean") return value ? "t" : "f";
  if (Buffer.isBuffer(value)) return "\\x" + value.toString("hex");
  if (Array.isArray(value)) return `{${value.map((each) => text(each) ?? "NULL").join(",")}}`;
  return String(value);
}

const lsnText = (lsn) => `${(lsn >> 32n).toString(16)}/${(lsn & 0xffffffffn).toString(16)}`.toUpperCase();

const columnsOf = (fields) => fields.filter((field) => "pg.name" in field);

// -- the metadata topic -------------------------------------------------------------------------------------------------

const records = lines(recordsName).map((line) => ({
  ...line,
  key: line.key === null ? null : Buffer.from(line.key, "base64"),
  value: line.value === null ? null : Buffer.from(line.value, "base64"),
  headers: Object.fromEntries(line.headers.map(([name, value]) => [name, Buffer.from(value, "base64")])),
}));
// A tombstone is no event: its delete came before it.
const tombstones = new Set(records.filter((each) => each.value === null).map(({ topic, partition, offset }) => `${topic} ${partition} ${offset}`));
const control = (name) => readerOf(jsonFile(join(schemaFolder, `${name}.avsc`)));
const readCut = control("Cut");
const RELATIONS = {
  "0fb3af2dcb8e9f95": "Relation",
  "2ea194b64a2cbf6d": "Relation2",
  "8b0590d9d20e9b6c": "Relation3",
  a44f3fabe4dc7f3e: "Relation4",
};
const readRelation = Object.fromEntries(Object.entries(RELATIONS).map(([id, name]) => [id, control(name)]));

const layouts = new Map(); // by what records begin with, of values and keys alike
const isMetadata = (each) => each.topic.endsWith(".metadata");
const isCut = (each) => each.topic.endsWith(".cuts");
for (const record of records.filter(isMetadata)) {
  if (!record.key.toString().startsWith("relation/")) continue;
  const relation = decode(readRelation[frame(record.value).id], record.value);
  const value = JSON.parse(relation.value_schema);
  const columns = columnsOf(value.fields[0].type[1].fields);
  const keyed = relation.columns.filter((column) => column.is_key).map((column) => column.name);
  const missing = Object.fromEntries(relation.columns.map((column) => [column.name, column.missing_value ?? null]));
  const rows = value.fields[0].type[1].fields;
  const layout = { read: readerOf(value), fromJson: rowFromJson(rows), columns, keyed, missing };
  const inAvro = (id, registryId) => (typeof registryId === "bigint" ? `registry ${registryId}` : id);
  layouts.set(relation.format === "json" ? `json ${relation.schema_id}` : inAvro(relation.schema_id, relation.value_registry_id), layout);
  if (relation.key_schema !== null) {
    const key = JSON.parse(relation.key_schema);
    layout.key = { read: readerOf(key), fromJson: rowFromJson(key.fields), columns: columnsOf(key.fields) };
    layouts.set(inAvro(relation.key_schema_id, relation.key_registry_id), layout.key);
  }
}

function layoutOf(id) {
  const layout = layouts.get(id);
  if (!layout) throw new Error(`schema ${id} is not in the metadata topic`);
  return layout;
}

// -- events ---------------------------------------------------------------------------------------------------------------

const OPERATIONS = { c: "insert", u: "update", d: "delete", t: "truncate", r: "copy" };
const MARKERS = { first_in_data_collection: "copy_begin", last_in_data_collection: "copy_end" };

function row(record, columns, exceptional) {
  if (record === null) return null;
  const texts = exceptional ?? {};
  return Object.fromEntries(
    columns.map((column) => {
      const name = column["pg.name"];
      return [name, name in texts ? texts[name] : text(record[column.name])];
    }),
  );
}

const isJson = (bytes) => bytes[0] === "{".charCodeAt(0);

// A key in JSON names no schema: it is of the version of its event. Its columns, by their places, are called as there.
function key(bytes, version) {
  if (bytes === null || bytes === undefined) return null;
  const layout = isJson(bytes) ? version.key : layoutOf(frame(bytes).id);
  const record = isJson(bytes) ? parsed(bytes.toString("utf8")) : decode(layout.read, bytes);
  const found = row(isJson(bytes) ? layout.fromJson(record) : record, layout.columns, record._exceptional);
  return Object.fromEntries(layout.columns.map((column, at) => [version.keyed[at], found[column["pg.name"]]]));
}

function envelope(value) {
  if (!isJson(value)) {
    const layout = layoutOf(frame(value).id);
    return [layout, decode(layout.read, value)];
  }
  const found = parsed(value.toString("utf8"));
  const layout = layoutOf(`json ${found.schema_id}`);
  return [layout, { ...found, before: layout.fromJson(found.before), after: layout.fromJson(found.after) }];
}

function event(record) {
  const [layout, found] = envelope(record.value);
  const { source } = found;
  const isWhole = found.before_image === "full";
  const kept = layout.columns.filter((column) => !(found.unchanged ?? []).includes(column["pg.name"]));
  const known = isWhole ? layout.columns : layout.columns.filter((column) => layout.keyed.includes(column["pg.name"]));
  return {
    columns: layout.columns,
    missing: layout.missing,
    position: [source.commit_lsn, source.ordinal],
    key: record.key?.toString("hex"), // what rows are told apart by: columns may be renamed
    line: {
      topic: record.topic,
      partition: record.partition,
      offset: record.offset,
      operation: found.op === "m" ? MARKERS[source.snapshot] : OPERATIONS[found.op],
      table: `${source.schema}.${source.table}`,
      relation_id: Number(source.relation_id),
      commit_lsn: lsnText(source.commit_lsn),
      ordinal: Number(source.ordinal),
      xid: source.txId === null ? null : Number(source.txId),
      key: "tm".includes(found.op) ? null : key(record.key, layout), // in a compacted topic one of no row
      before: row(found.before, known, found.before_exceptional),
      is_before_whole: isWhole,
      after: row(found.after, kept, found.exceptional),
      unchanged: found.unchanged ?? [],
      exceptional: Object.keys((found.after !== null ? found.exceptional : found.before_exceptional) ?? {}).sort(),
      new_key: key(record.headers["__debezium.newkey"], layout),
      old_key: key(record.headers["__debezium.oldkey"], layout),
    },
  };
}

// -- cuts -----------------------------------------------------------------------------------------------------------------

function* transactions(cuts) {
  let previous = null;
  let ranges = [];
  for (const cut of cuts) {
    const epoch = JSON.stringify(Object.values(cut.epoch), (_, value) => (typeof value === "bigint" ? `${value}` : value));
    const isNew = previous === null || previous.epoch !== epoch;
    const follows = isNew ? cut.cut_id === 1n : cut.cut_id === previous.id + 1n && cut.previous_end_lsn === previous.end;
    if (!follows) throw new Error(`cut ${cut.cut_id} does not follow the one before it`);
    if (isNew) ranges = [];
    for (const range of cut.partitions) {
      if (range.end_offset - range.start_offset !== range.records) throw new Error(`cut ${cut.cut_id} has a hole`);
    }
    ranges.push(...cut.partitions);
    previous = { epoch, id: cut.cut_id, end: cut.end_lsn };
    if (!cut.complete) continue;
    const found = [];
    for (const { topic, partition, start_offset: start, end_offset: end } of ranges) {
      for (let offset = start; offset < end; offset += 1n) {
        if (!tombstones.has(`${topic} ${partition} ${offset}`)) found.push([topic, Number(partition), Number(offset)]);
      }
    }
    found.sort((a, b) => compare(a[0], b[0]) || a[1] - b[1] || a[2] - b[2]);
    if (found.length) yield { end_lsn: lsnText(cut.end_lsn), records: found };
    ranges = [];
  }
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// -- tables ---------------------------------------------------------------------------------------------------------------

const RANK = { truncate: 0, copy_begin: 1, copy_end: 3 };
const tables = new Map(); // by the relation's id: a table may be renamed, and another one get its name

function apply(events) {
  const rank = (each) => RANK[each.line.operation] ?? 2;
  const order = (a, b) => compare(a.position[0], b.position[0]) || compare(a.position[1], b.position[1]) || rank(a) - rank(b);
  const told = new Set();
  for (const each of [...events].sort(order)) {
    const { line } = each;
    const once = `${line.relation_id} ${line.commit_lsn} ${line.ordinal} ${line.operation}`;
    if (line.operation in RANK && told.has(once)) continue; // in every partition, and once for its table
    told.add(once);
    const table = tables.get(line.relation_id) ?? { byKey: new Map(), rows: [], aside: null, named: null };
    tables.delete(line.relation_id); // so that the last one is that of the last event
    tables.set(line.relation_id, Object.assign(table, { name: line.table }));
    change(table, each);
  }
}

// Rows that are there get what they have in columns that come with this event's version.
function fill(table, number, missing) {
  const known = new Set(Object.values(table.number ?? {}));
  for (const [name, at] of Object.entries(number)) {
    if (known.has(at)) continue;
    for (const each of [...table.byKey.values(), ...table.rows, ...(table.aside ?? [])]) each[at] = missing[name];
  }
  table.number = number;
}

function change(table, { line, columns, missing, key: id }) {
  const number = Object.fromEntries(columns.map((column) => [column["pg.name"], String(column["pg.attnum"] ?? column["pg.name"])]));
  const cells = (of) => Object.fromEntries(Object.entries(of).map(([name, value]) => [number[name], value]));
  const rows = () => table.aside ?? table.rows;
  const remove = (of) => {
    const at = rows().findIndex((each) => sorted(each) === sorted(cells(of)));
    if (at < 0) throw new Error(`a row of ${line.table} is not there`);
    rows().splice(at, 1);
  };
  fill(table, number, missing);
  if (line.operation === "truncate") {
    table.byKey.clear();
    rows().length = 0;
  } else if (line.operation === "copy_begin") {
    [table.named, table.aside] = [new Set(), []];
  } else if (line.operation === "copy_end") {
    for (const each of table.byKey.keys()) if (!table.named.has(each)) table.byKey.delete(each);
    [table.rows, table.named, table.aside] = [table.aside, null, null];
  } else if (line.key === null) {
    if (line.operation === "update" || line.operation === "delete") remove(line.before);
    if (line.operation !== "delete") rows().push(cells(line.after));
  } else if (line.operation === "delete") {
    table.moved = line.new_key ? table.byKey.get(id) : null;
    table.byKey.delete(id);
    table.named?.add(id);
  } else {
    const before = (line.old_key ? table.moved : table.byKey.get(id)) ?? {};
    const stay = line.unchanged.map((name) => [number[name], before[number[name]] ?? null]);
    table.byKey.set(id, { ...cells(line.after), ...Object.fromEntries(stay) });
    table.named?.add(id);
  }
}

// -- what is expected -----------------------------------------------------------------------------------------------------

const sorted = (value) =>
  JSON.stringify(value, (_, each) =>
    each && typeof each === "object" && !Array.isArray(each) ? Object.fromEntries(Object.entries(each).sort()) : each,
  );

function expect(found, wanted, what) {
  if (sorted(found) === sorted(wanted)) return;
  console.error(`${what} differs\n  found:    ${sorted(found)}\n  expected: ${sorted(wanted)}`);
  process.exit(1);
}

// Topics of tables have two dots.
const isOfTable = (each) => each.topic.split(".").length === 3;
const events = records.filter((each) => isOfTable(each) && each.value !== null).map(event);
const wantedEvents = lines("events.jsonl");
expect(events.length, wantedEvents.length, "the number of events");
events.forEach((each, at) => expect(each.line, wantedEvents[at], `event ${at + 1}`));

const cuts = records.filter(isCut).map((each) => decode(readCut, each.value));
const whole = [...transactions(cuts)];
const wantedWhole = lines("transactions.jsonl");
expect(whole.length, wantedWhole.length, "the number of whole transactions");
whole.forEach((each, at) => expect(each, wantedWhole[at], `transaction ${at + 1}`));

const byPlace = new Map(events.map((each) => [`${each.line.topic} ${each.line.partition} ${each.line.offset}`, each]));
for (const { records: places } of whole) apply(places.map((place) => byPlace.get(place.join(" "))).filter(Boolean));

const place = ({ topic, partition, offset }) => ({ topic, partition, offset });
const OTHERS = {
  messages: (record) => {
    const [, { source, message }] = envelope(record.value);
    const content = isJson(record.value) ? Buffer.from(message.content, "base64") : message.content;
    return {
      ...place(record),
      commit_lsn: lsnText(source.commit_lsn),
      ordinal: Number(source.ordinal),
      xid: source.txId === null ? null : Number(source.txId),
      prefix: message.prefix,
      content: `\\x${content.toString("hex")}`,
    };
  },
  transaction: (record) => {
    const { ts_ms: _, ...said } = JSON.parse(record.value.toString("utf8"));
    return { ...place(record), key: JSON.parse(record.key.toString("utf8")), ...said };
  },
};
for (const [name, told] of Object.entries({ messages: "messages.jsonl", transaction: "boundaries.jsonl" })) {
  const found = records.filter((each) => !isOfTable(each) && each.topic.endsWith(`.${name}`)).map(OTHERS[name]);
  if (found.length) expect(found, lines(told), told);
}
for (const [name, wanted] of Object.entries(jsonFile(join(folder, "tables.json")))) {
  const { byKey, rows, number } = [...tables.values()].findLast((each) => each.name === name);
  const named = [...byKey.values(), ...rows].map((each) =>
    Object.fromEntries(Object.entries(number).map(([column, at]) => [column, each[at] ?? null])),
  );
  expect(named.map(sorted).sort(), wanted.map(sorted).sort(), `table ${name}`);
}
console.log(`${events.length} events, ${whole.length} transactions and ${tables.size} tables are as expected`);
