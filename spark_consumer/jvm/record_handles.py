"""Loops over Kafka's records that the JVM runs by itself, made of Java's own methods.

In: a consumer, streams to write to. Out: method handles, and objects of Java's interfaces that call them. A call from
Python for each record would take longer than Kafka does, and a class of ours would have to be compiled and shipped.
"""

from typing import Any

_RECORD = "org.apache.kafka.clients.consumer.ConsumerRecord"
_RECORDS = "org.apache.kafka.clients.consumer.ConsumerRecords"


class RecordHandles:
    """Makes loops over records, and ``java.util.function.Consumer`` objects for them, out of Java's own methods."""

    def __init__(self, jvm: Any, loader: Any) -> None:
        self._jvm, invoke = jvm, jvm.java.lang.invoke
        self._all, self._type, self._proxies = (
            invoke.MethodHandles,
            invoke.MethodType.methodType,
            invoke.MethodHandleProxies,
        )
        self._lookup = self._all.publicLookup()
        self._class = jvm.java.lang.Class.forName
        self._record, self._loader = self._class(_RECORD, True, loader), loader
        self._object, self._of_bytes = self._class("java.lang.Object"), self._class("[B")
        self._void, self._boolean = jvm.java.lang.Void.TYPE, jvm.java.lang.Boolean.TYPE

    def printing(self, stream: Any) -> Any:
        """One that prints a record's header to a PrintStream."""
        type_of = self._type(self._void, self._object)
        return self._consumer(
            self._lookup.findVirtual(self._class("java.io.PrintStream"), "print", type_of).bindTo(stream)
        )

    def appending(self, part: str, stream: Any) -> Any:
        """One that appends a record's key or value, unless it is null, to a ByteArrayOutputStream."""
        return self._consumer(
            self._unless_null(part, self._class("java.io.ByteArrayOutputStream"), "writeBytes", stream)
        )

    def _unless_null(self, part: str, stream_class: Any, method: str, stream: Any) -> Any:
        """A handle that calls a stream's method with a record's key or value, unless it is null."""
        read = self._lookup.findVirtual(self._record, part, self._type(self._object))
        write = self._lookup.findVirtual(stream_class, method, self._type(self._void, self._of_bytes))
        write = write.bindTo(stream).asType(self._type(self._void, self._object))
        is_null = self._lookup.findStatic(
            self._class("java.util.Objects"), "isNull", self._type(self._boolean, self._object)
        )
        nothing = self._all.empty(self._type(self._void, self._record))
        return self._all.guardWithTest(self._after(read, is_null), nothing, self._after(read, write))

    def writing(self, read: str, kind: str, stream: Any) -> Any:
        """A handle that writes what a method of the record says, a ``Long`` or an ``Int``, to a DataOutputStream."""
        java = self._jvm.java.lang
        number, written = (java.Long.TYPE, java.Long.TYPE) if kind == "Long" else (java.Integer.TYPE, java.Integer.TYPE)
        of_record = self._lookup.findVirtual(self._record, read, self._type(number))
        stream_class = self._class("java.io.DataOutputStream")
        write = self._lookup.findVirtual(stream_class, f"write{kind}", self._type(self._void, written)).bindTo(stream)
        return self._after(of_record, write)

    def writing_bytes(self, part: str, stream: Any) -> Any:
        """A handle that writes a record's key or value, unless it is null, to an OutputStream."""
        return self._unless_null(part, self._class("java.io.OutputStream"), "write", stream)

    def in_turn(self, *handles: Any) -> Any:
        """The handle that calls these, each with the record."""
        *before, last = handles
        for handle in reversed(before):
            last = self._all.foldArguments(last, handle)
        return last

    def polling(self, consumer: Any, patience: Any, of_record: Any) -> Any:
        """A handle that polls so often as it is told, and calls ``of_record`` with each record."""
        of_class, number = self._class, self._jvm.java.lang.Integer.TYPE
        records = of_class(_RECORDS, True, self._loader)
        poll = self._lookup.findVirtual(
            consumer.getClass(), "poll", self._type(records, of_class("java.time.Duration"))
        ).bindTo(consumer)
        iterable = of_class("java.lang.Iterable")
        each = self._lookup.findVirtual(
            iterable, "forEach", self._type(self._void, of_class("java.util.function.Consumer"))
        )
        each = each.asType(each.type().changeParameterType(0, records))
        polled = self._after(self._bound(poll, 0, patience), self._bound(each, 1, self._consumer(of_record)))
        numbers = self._jvm.java.util.ArrayList()
        numbers.add(number)
        numbers.add(number)
        body = self._all.dropArguments(polled, 0, numbers)
        return self._all.countedLoop(self._all.identity(number), None, body)

    def _bound(self, handle: Any, position: int, value: Any) -> Any:
        values = self._jvm.java.util.ArrayList()
        values.add(value)
        return self._all.insertArguments(handle, position, values.toArray())

    def _after(self, first: Any, second: Any) -> Any:
        """The handle that calls ``second`` with the result of ``first``."""
        return self._all.collectArguments(second, 0, first)

    def _consumer(self, handle: Any) -> Any:
        any_record = handle.asType(self._type(self._void, self._object))
        return self._proxies.asInterfaceInstance(self._class("java.util.function.Consumer"), any_record)
