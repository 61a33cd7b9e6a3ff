// A reader of walbridge's topics, written from docs/kafka.md: the standard library alone, no broker.
//
//	go run reader.go <conformance folder> <folder of Relation.avsc and Cut.avsc> [<file of records>]
//
// In: records.jsonl or the file that is named, records as Kafka held them, in any of the formats. Out: exit code 0 if every event, every whole transaction and the tables
// behind them are what events.jsonl, transactions.jsonl and tables.json say; else 1, with the first that differs.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return value
}

// -- Avro -----------------------------------------------------------------------------------------------------------

type body struct {
	data []byte
	at   int
}

func (b *body) take(count int64) []byte {
	if count < 0 || int64(len(b.data)-b.at) < count {
		fail("a record ends too early")
	}
	b.at += int(count)
	return b.data[b.at-int(count) : b.at]
}

func (b *body) long() int64 {
	value, size := binary.Varint(b.data[b.at:])
	if size <= 0 {
		fail("a record ends too early")
	}
	b.at += size
	return value
}

type read func(*body) any

type field struct {
	name       string
	properties map[string]any
	read       read
}

// types are the named ones of one schema, which may be used before and after they are read.
type types map[string]read

func (named types) reader(schema any, space string) read {
	switch of := schema.(type) {
	case []any:
		branches := make([]read, len(of))
		for at, branch := range of {
			branches[at] = named.reader(branch, space)
		}
		return func(b *body) any { return branches[b.long()](b) }
	case string:
		return named.named(of, space)
	}
	of := schema.(map[string]any)
	switch of["type"] {
	case "record":
		if inside, ok := of["namespace"].(string); ok {
			space = inside
		}
		var fields []field
		read := func(b *body) any {
			record := map[string]any{}
			for _, each := range fields {
				record[each.name] = each.read(b)
			}
			return record
		}
		named[space+"."+of["name"].(string)] = read
		fields = named.fields(of, space)
		return read
	case "enum":
		return func(b *body) any { return of["symbols"].([]any)[b.long()] }
	case "array":
		item := named.reader(of["items"], space)
		return func(b *body) any {
			found := []any{}
			blocks(b, func() { found = append(found, item(b)) })
			return found
		}
	case "map":
		value := named.reader(of["values"], space)
		return func(b *body) any {
			found := map[string]any{}
			blocks(b, func() {
				name := string(b.take(b.long()))
				found[name] = value(b)
			})
			return found
		}
	}
	plain := named.reader(of["type"], space)
	switch of["logicalType"] {
	case "decimal":
		scale, _ := of["scale"].(float64)
		return func(b *body) any { return decimal(plain(b).([]byte), int(scale)) }
	case "date":
		return func(b *body) any { return date(plain(b).(int64)) }
	case "timestamp-micros":
		return func(b *body) any { return timestamp(plain(b).(int64)) + "+00" }
	case "local-timestamp-micros":
		return func(b *body) any { return timestamp(plain(b).(int64)) }
	}
	return plain
}

func (named types) fields(record map[string]any, space string) []field {
	var found []field
	for _, each := range record["fields"].([]any) {
		of := each.(map[string]any)
		found = append(found, field{of["name"].(string), of, named.reader(of["type"], space)})
	}
	return found
}

func (named types) named(name, space string) read {
	switch name {
	case "null":
		return func(*body) any { return nil }
	case "boolean":
		return func(b *body) any { return b.take(1)[0] == 1 }
	case "int", "long":
		return func(b *body) any { return b.long() }
	case "float":
		return func(b *body) any { return math.Float32frombits(binary.LittleEndian.Uint32(b.take(4))) }
	case "double":
		return func(b *body) any { return math.Float64frombits(binary.LittleEndian.Uint64(b.take(8))) }
	case "bytes":
		return func(b *body) any { return b.take(b.long()) }
	case "string":
		return func(b *body) any { return string(b.take(b.long())) }
	}
	if !strings.Contains(name, ".") {
		name = space + "." + name
	}
	return func(b *body) any { return named[name](b) }
}

func blocks(b *body, item func()) {
	for count := b.long(); count != 0; count = b.long() {
		if count < 0 {
			b.long() // the block's bytes
			count = -count
		}
		for ; count > 0; count-- {
			item()
		}
	}
}

func decode(of read, value []byte) map[string]any {
	_, at := frame(value)
	b := &body{value, at}
	record := of(b).(map[string]any)
	if b.at != len(value) {
		fail("bytes are left over behind a record")
	}
	return record
}

// frame tells what a record begins with: the id of its schema, and where the Avro begins.
func frame(value []byte) (string, int) {
	switch {
	case len(value) >= 10 && value[0] == 0xC3 && value[1] == 0x01:
		return hex.EncodeToString(value[2:10]), 10
	case len(value) >= 5 && value[0] == 0:
		return inRegistry(int64(binary.BigEndian.Uint32(value[1:]))), 5
	}
	fail("a value of no known framing")
	return "", 0
}

func inRegistry(id any) string { return fmt.Sprint("registry ", id) }

// -- JSON: the same records ---------------------------------------------------------------------------------------------

// exact keeps the digits of numbers, which may be beyond 2^53.
func exact(data []byte) map[string]any {
	var found map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&found); err != nil {
		fail("%v", err)
	}
	return found
}

type convert func(any) any

func whole(value any) int64 { return must(value.(json.Number).Int64()) }

// fromJSON makes of a value in JSON what the reader of the same Avro type gives.
func fromJSON(schema any) convert {
	if branches, ok := schema.([]any); ok {
		value := fromJSON(branches[1]) // null is the first
		return func(found any) any {
			if found == nil {
				return nil
			}
			return value(found)
		}
	}
	of, ok := schema.(map[string]any)
	if !ok {
		of = map[string]any{"type": schema}
	}
	switch logical := of["logicalType"]; {
	case logical == "date":
		return func(found any) any { return date(whole(found)) }
	case logical == "timestamp-micros":
		return func(found any) any { return timestamp(whole(found)) + "+00" }
	case logical == "local-timestamp-micros":
		return func(found any) any { return timestamp(whole(found)) }
	case of["type"] == "array":
		item := fromJSON(of["items"])
		return func(found any) any {
			items := []any{}
			for _, each := range found.([]any) {
				items = append(items, item(each))
			}
			return items
		}
	case of["type"] == "bytes" && logical == nil:
		return func(found any) any { return decoded(found) }
	case of["type"] == "double" || of["type"] == "float":
		return func(found any) any {
			if number, ok := found.(json.Number); ok {
				return must(number.Float64())
			}
			return found
		}
	}
	return func(found any) any { return found }
}

// row of JSON is by the columns' names.
func (of *version) rowFromJSON(found any) any {
	told, ok := found.(map[string]any)
	if !ok {
		return nil
	}
	values := map[string]any{}
	for _, each := range of.columns {
		values[each.field] = each.fromJSON(told[each.name])
	}
	return values
}

func isJSON(data []byte) bool { return len(data) > 0 && data[0] == '{' }

// envelopeFromJSON is what the Avro of the event gives.
func envelopeFromJSON(data []byte, known map[string]*version) (*version, map[string]any) {
	found := exact(data)
	of := lookedUp(known, fmt.Sprint("json ", found["schema_id"]))
	for _, image := range []string{"before", "after"} {
		found[image] = of.rowFromJSON(found[image])
	}
	source := found["source"].(map[string]any)
	for name, value := range source {
		if number, ok := value.(json.Number); ok {
			source[name] = must(number.Int64())
		}
	}
	return of, found
}

// -- values as Postgres prints them -----------------------------------------------------------------------------------

func decimal(data []byte, scale int) string {
	value := new(big.Int).SetBytes(data)
	if len(data) > 0 && data[0] >= 0x80 {
		value.Sub(value, new(big.Int).Lsh(big.NewInt(1), uint(8*len(data))))
	}
	digits, sign := value.String(), ""
	if value.Sign() < 0 {
		digits, sign = digits[1:], "-"
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	if scale == 0 {
		return sign + digits
	}
	point := len(digits) - scale
	return sign + digits[:point] + "." + digits[point:]
}

func date(days int64) string { return time.Unix(days*86_400, 0).UTC().Format("2006-01-02") }

func timestamp(micros int64) string {
	at := time.UnixMicro(micros).UTC()
	text := at.Format("2006-01-02 15:04:05")
	if part := at.Nanosecond() / 1000; part != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%06d", part), "0")
	}
	return text
}

// text of a value; nil stays nil.
func text(value any) any {
	switch of := value.(type) {
	case nil:
		return nil
	case bool:
		return map[bool]string{true: "t", false: "f"}[of]
	case []byte:
		return "\\x" + hex.EncodeToString(of)
	case float64:
		return strconv.FormatFloat(of, 'g', -1, 64)
	case float32:
		return strconv.FormatFloat(float64(of), 'g', -1, 32)
	case []any:
		items := make([]string, len(of))
		for at, each := range of {
			if items[at] = "NULL"; each != nil {
				items[at] = text(each).(string)
			}
		}
		return "{" + strings.Join(items, ",") + "}"
	}
	return fmt.Sprint(value)
}

func lsn(value int64) string { return fmt.Sprintf("%X/%X", uint64(value)>>32, uint32(value)) }

// -- records and versions -----------------------------------------------------------------------------------------------

type place struct {
	topic     string
	partition int
	offset    int64
}

type record struct {
	place
	key, value []byte
	headers    map[string][]byte
}

func lines(path string) []map[string]any {
	var found []map[string]any
	file := must(os.Open(path))
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		found = append(found, parsed(scanner.Bytes()).(map[string]any))
	}
	if scanner.Err() != nil {
		fail("%s: %v", path, scanner.Err())
	}
	return found
}

func parsed(data []byte) any {
	var found any
	if err := json.Unmarshal(data, &found); err != nil {
		fail("%v", err)
	}
	return found
}

func decoded(value any) []byte {
	if value == nil {
		return nil
	}
	return must(base64.StdEncoding.DecodeString(value.(string)))
}

func records(path string) []record {
	var found []record
	for _, line := range lines(path) {
		of := record{
			place: place{line["topic"].(string), int(line["partition"].(float64)), int64(line["offset"].(float64))},
			key:   decoded(line["key"]), value: decoded(line["value"]), headers: map[string][]byte{},
		}
		for _, header := range line["headers"].([]any) {
			pair := header.([]any)
			of.headers[pair[0].(string)] = decoded(pair[1])
		}
		found = append(found, of)
	}
	return found
}

type column struct {
	field, name, number string
	fromJSON            convert
}

// A version decodes values, or keys; missing is by the column's number, key is that of values, and keyed what the columns
// of the key are called in values, in the key's order.
type version struct {
	read    read
	key     *version
	columns []column
	keyed   []string
	missing map[string]any
}

func layout(schema map[string]any, row map[string]any) *version {
	of := &version{read: types{}.reader(schema, ""), missing: map[string]any{}}
	for _, each := range row["fields"].([]any) {
		properties := each.(map[string]any)
		name, ok := properties["pg.name"].(string)
		if !ok {
			continue // a field of walbridge's own
		}
		number := name
		if attnum, ok := properties["pg.attnum"].(float64); ok {
			number = fmt.Sprint(int(attnum))
		}
		of.columns = append(of.columns, column{properties["name"].(string), name, number, fromJSON(properties["type"])})
	}
	return of
}

// relations: the ids of the schemas in which the metadata topic tells versions of tables.
var relations = map[string]string{
	"0fb3af2dcb8e9f95": "Relation.avsc", "2ea194b64a2cbf6d": "Relation2.avsc", "8b0590d9d20e9b6c": "Relation3.avsc",
	"a44f3fabe4dc7f3e": "Relation4.avsc",
}

func versions(metadata []record, schemas string) map[string]*version {
	found := map[string]*version{}
	readers := map[string]read{}
	for id, name := range relations {
		readers[id] = types{}.reader(parsed(must(os.ReadFile(filepath.Join(schemas, name)))), "")
	}
	for _, each := range metadata {
		if !bytes.HasPrefix(each.key, []byte("relation/")) {
			continue
		}
		written, _ := frame(each.value)
		of := decode(readers[written], each.value)
		value := parsed([]byte(of["value_schema"].(string))).(map[string]any)
		before := value["fields"].([]any)[0].(map[string]any)["type"].([]any)[1].(map[string]any)
		version := layout(value, before)
		for at, each := range of["columns"].([]any) {
			told := each.(map[string]any)
			if told["is_key"].(bool) {
				version.keyed = append(version.keyed, told["name"].(string))
			}
			if missing := told["missing_value"]; missing != nil {
				version.missing[version.columns[at].number] = missing
			}
		}
		found[nameOf(of, "schema_id", "value_registry_id")] = version
		if of["key_schema"] != nil {
			key := parsed([]byte(of["key_schema"].(string))).(map[string]any)
			version.key = layout(key, key)
			found[nameOf(of, "key_schema_id", "key_registry_id")] = version.key
		}
	}
	return found
}

// nameOf tells what records of a version begin with.
func nameOf(relation map[string]any, id, registryID string) string {
	if relation["format"] == "json" {
		return fmt.Sprint("json ", relation[id])
	}
	if relation[registryID] != nil {
		return inRegistry(relation[registryID])
	}
	return relation[id].(string)
}

func lookedUp(known map[string]*version, name string) *version {
	of, ok := known[name]
	if !ok {
		fail("schema %s is not in the metadata topic", name)
	}
	return of
}

// -- events -------------------------------------------------------------------------------------------------------------

var operations = map[string]string{"c": "insert", "u": "update", "d": "delete", "t": "truncate", "r": "copy"}
var markers = map[string]string{"first_in_data_collection": "copy_begin", "last_in_data_collection": "copy_end"}

type row = map[string]any

type event struct {
	line                row
	version             *version
	commitLSN, ordinal  int64
	rank                int
	id                  string // the bytes of its key, which tell rows apart: columns may be renamed
	key, newKey, oldKey row
	before, after       row
	unchanged           []any
}

func (each *event) operation() string { return each.line["operation"].(string) }

func (of *version) row(found any, texts any, wanted func(name string) bool) row {
	if found == nil {
		return nil
	}
	exceptional, _ := texts.(map[string]any)
	values := row{}
	for _, each := range of.columns {
		if !wanted(each.name) {
			continue
		}
		values[each.name] = text(found.(map[string]any)[each.field])
		if told, ok := exceptional[each.name]; ok {
			values[each.name] = told
		}
	}
	return values
}

// keyOf reads a key; one in JSON names no schema: it is of the version of its event. The columns, by their places, are
// called as there.
func keyOf(data []byte, of *version, known map[string]*version) row {
	if data == nil {
		return nil
	}
	every := func(string) bool { return true }
	var key *version
	var found row
	if isJSON(data) {
		told := exact(data)
		key = of.key
		found = key.row(key.rowFromJSON(told), told["_exceptional"], every)
	} else {
		id, _ := frame(data)
		key = lookedUp(known, id)
		told := decode(key.read, data)
		found = key.row(told, told["_exceptional"], every)
	}
	called := row{}
	for at, each := range key.columns {
		called[of.keyed[at]] = found[each.name]
	}
	return called
}

func envelopeOf(data []byte, known map[string]*version) (*version, map[string]any) {
	if isJSON(data) {
		return envelopeFromJSON(data, known)
	}
	id, _ := frame(data)
	of := lookedUp(known, id)
	return of, decode(of.read, data)
}

func eventOf(from record, known map[string]*version) *event {
	of, found := envelopeOf(from.value, known)
	source := found["source"].(map[string]any)
	isWhole := found["before_image"] == "full"
	unchanged, _ := found["unchanged"].([]any)
	isUnchanged := map[string]bool{}
	for _, name := range unchanged {
		isUnchanged[name.(string)] = true
	}
	made := &event{
		version: of, commitLSN: source["commit_lsn"].(int64), ordinal: source["ordinal"].(int64), unchanged: unchanged,
		id: string(from.key), key: keyOf(from.key, of, known), newKey: keyOf(from.headers["__debezium.newkey"], of, known),
		oldKey: keyOf(from.headers["__debezium.oldkey"], of, known),
		before: of.row(found["before"], found["before_exceptional"], func(name string) bool { return isWhole || slices.Contains(of.keyed, name) }),
		after:  of.row(found["after"], found["exceptional"], func(name string) bool { return !isUnchanged[name] }),
	}
	if found["op"] == "t" || found["op"] == "m" {
		made.key = nil // in a compacted topic one of no row
	}
	texts := found["exceptional"]
	if found["after"] == nil {
		texts = found["before_exceptional"]
	}
	exceptional := []string{}
	if of, ok := texts.(map[string]any); ok {
		for name := range of {
			exceptional = append(exceptional, name)
		}
	}
	sort.Strings(exceptional)
	operation := operations[found["op"].(string)]
	if found["op"] == "m" {
		operation = markers[source["snapshot"].(string)]
	}
	made.rank = map[string]int{"truncate": 0, "copy_begin": 1, "copy_end": 3}[operation]
	if operation != "truncate" && made.rank == 0 {
		made.rank = 2
	}
	made.line = row{
		"topic": from.topic, "partition": from.partition, "offset": from.offset, "operation": operation,
		"table":       source["schema"].(string) + "." + source["table"].(string),
		"relation_id": source["relation_id"], "commit_lsn": lsn(made.commitLSN), "ordinal": made.ordinal,
		"xid": source["txId"], "key": made.key, "before": made.before, "is_before_whole": isWhole, "after": made.after,
		"unchanged": append([]any{}, unchanged...), "exceptional": exceptional, "new_key": made.newKey, "old_key": made.oldKey,
	}
	return made
}

// -- cuts: whole transactions ---------------------------------------------------------------------------------------------

type transaction struct {
	endLSN string
	places []place
}

func transactions(cuts []map[string]any, tombstones map[place]bool) []transaction {
	var found []transaction
	var ranges []any
	var before map[string]any
	for _, cut := range cuts {
		isNew := before == nil || fmt.Sprint(before["epoch"]) != fmt.Sprint(cut["epoch"])
		follows := cut["cut_id"] == int64(1)
		if !isNew {
			follows = cut["cut_id"].(int64) == before["cut_id"].(int64)+1 && cut["previous_end_lsn"] == before["end_lsn"]
		}
		if !follows {
			fail("cut %v does not follow the one before it", cut["cut_id"])
		}
		if isNew {
			ranges = nil
		}
		before = cut
		ranges = append(ranges, cut["partitions"].([]any)...)
		if cut["complete"] != true {
			continue
		}
		var places []place
		for _, each := range ranges {
			part := each.(map[string]any)
			start, end := part["start_offset"].(int64), part["end_offset"].(int64)
			if end-start != part["records"].(int64) {
				fail("cut %v has a hole", cut["cut_id"])
			}
			for offset := start; offset < end; offset++ {
				at := place{part["topic"].(string), int(part["partition"].(int64)), offset}
				if !tombstones[at] {
					places = append(places, at)
				}
			}
		}
		sort.Slice(places, func(a, b int) bool {
			one, other := places[a], places[b]
			if one.topic != other.topic {
				return one.topic < other.topic
			}
			return one.partition < other.partition || one.partition == other.partition && one.offset < other.offset
		})
		if len(places) > 0 {
			found = append(found, transaction{lsn(cut["end_lsn"].(int64)), places})
		}
		ranges = nil
	}
	return found
}

// -- tables ---------------------------------------------------------------------------------------------------------------

// Rows are by the numbers of columns. aside and named: of a copy beside the stream. last: how many events came before its last.
type table struct {
	called  string
	last    int
	columns []column
	byKey   map[string]row
	rows    []row
	aside   []row
	named   map[string]bool
	moved   row
}

func canonical(value any) string { return string(must(json.Marshal(value))) } // its keys are sorted

func (of *version) cells(found row) row {
	cells := row{}
	for _, each := range of.columns {
		if value, ok := found[each.name]; ok {
			cells[each.number] = value
		}
	}
	return cells
}

// fill gives rows that are older than a column what they have in it.
func (t *table) fill(of *version) {
	known := map[string]bool{}
	for _, each := range t.columns {
		known[each.number] = true
	}
	t.columns = of.columns
	for number, missing := range of.missing {
		if known[number] {
			continue
		}
		for _, rows := range [][]row{t.rows, t.aside} {
			for _, each := range rows {
				each[number] = missing
			}
		}
		for _, each := range t.byKey {
			each[number] = missing
		}
	}
}

func (t *table) target() *[]row {
	if t.named != nil {
		return &t.aside
	}
	return &t.rows
}

func (t *table) remove(wanted row) {
	rows := t.target()
	for at, each := range *rows {
		if canonical(each) == canonical(wanted) {
			*rows = append((*rows)[:at], (*rows)[at+1:]...)
			return
		}
	}
	fail("a row is not there: %v", wanted)
}

func (t *table) name(key string) {
	if t.named != nil {
		t.named[key] = true
	}
}

func (t *table) apply(each *event) {
	t.fill(each.version)
	key := each.id
	switch operation := each.operation(); {
	case operation == "truncate":
		t.byKey = map[string]row{}
		*t.target() = nil
	case operation == "copy_begin":
		t.named, t.aside = map[string]bool{}, nil
	case operation == "copy_end":
		for key := range t.byKey {
			if !t.named[key] {
				delete(t.byKey, key)
			}
		}
		t.rows, t.aside, t.named = t.aside, nil, nil
	case each.key == nil:
		if operation != "insert" && operation != "copy" {
			t.remove(each.version.cells(each.before))
		}
		if operation != "delete" {
			*t.target() = append(*t.target(), each.version.cells(each.after))
		}
	case operation == "delete":
		t.moved = nil
		if each.newKey != nil {
			t.moved = t.byKey[key]
		}
		delete(t.byKey, key)
		t.name(key)
	default:
		before := t.byKey[key]
		if each.oldKey != nil {
			before = t.moved
		}
		cells := each.version.cells(each.after)
		for _, column := range each.version.columns {
			for _, name := range each.unchanged {
				if column.name == name {
					cells[column.number] = before[column.number]
				}
			}
		}
		t.byKey[key] = cells
		t.name(key)
	}
}

func (t *table) texts() []string {
	found := []string{}
	add := func(cells row) {
		named := row{}
		for _, each := range t.columns {
			named[each.name] = cells[each.number]
		}
		found = append(found, canonical(named))
	}
	for _, each := range t.byKey {
		add(each)
	}
	for _, each := range t.rows {
		add(each)
	}
	sort.Strings(found)
	return found
}

// -- what is expected -------------------------------------------------------------------------------------------------------

func expect(found, wanted any, what string, arguments ...any) {
	one, other := canonical(parsed([]byte(canonical(found)))), canonical(wanted)
	if one != other {
		fail("%s differs\n  found:    %s\n  expected: %s", fmt.Sprintf(what, arguments...), one, other)
	}
}

func main() {
	if len(os.Args) != 3 && len(os.Args) != 4 {
		fail("usage: go run reader.go <conformance folder> <folder of schemas> [<file of records>]")
	}
	folder, schemas, recordsName := os.Args[1], os.Args[2], "records.jsonl"
	if len(os.Args) == 4 {
		recordsName = os.Args[3]
	}
	var metadata []record
	var cuts []map[string]any
	var data []record
	tombstones := map[place]bool{}
	readCut := types{}.reader(parsed(must(os.ReadFile(filepath.Join(schemas, "Cut.avsc")))), "")
	for _, each := range records(filepath.Join(folder, recordsName)) {
		switch {
		case strings.HasSuffix(each.topic, ".metadata"):
			metadata = append(metadata, each)
		case strings.HasSuffix(each.topic, ".cuts"):
			cuts = append(cuts, decode(readCut, each.value))
		case strings.Count(each.topic, ".") == 1: // messages, or begins and ends of transactions: of no table
		case each.value == nil:
			tombstones[each.place] = true
		default:
			data = append(data, each)
		}
	}
	known := versions(metadata, schemas)
	events := map[place]*event{}
	wantedEvents := lines(filepath.Join(folder, "events.jsonl"))
	expect(len(data), float64(len(wantedEvents)), "the number of events")
	for at, each := range data {
		events[each.place] = eventOf(each, known)
		expect(events[each.place].line, wantedEvents[at], "event %d", at+1)
	}
	whole := transactions(cuts, tombstones)
	wantedWhole := lines(filepath.Join(folder, "transactions.jsonl"))
	expect(len(whole), float64(len(wantedWhole)), "the number of whole transactions")
	tables := map[string]*table{} // by the relation's id: a table may be renamed, and another one get its name
	for at, each := range whole {
		places := []any{}
		for _, of := range each.places {
			places = append(places, []any{of.topic, of.partition, of.offset})
		}
		expect(row{"end_lsn": each.endLSN, "records": places}, wantedWhole[at], "transaction %d", at+1)
		applyWhole(each, events, tables)
	}
	for name, wanted := range parsed(must(os.ReadFile(filepath.Join(folder, "tables.json")))).(map[string]any) {
		rows := []string{}
		for _, each := range wanted.([]any) {
			rows = append(rows, canonical(each))
		}
		sort.Strings(rows)
		var newest *table
		for _, each := range tables {
			if each.called == name && (newest == nil || each.last > newest.last) {
				newest = each
			}
		}
		if newest == nil {
			fail("table %s never came", name)
		}
		expect(newest.texts(), parsed([]byte(canonical(rows))), "table %s", name)
	}
	fmt.Printf("%d events, %d transactions and %d tables are as expected\n", len(data), len(whole), len(tables))
}

var applied int

func applyWhole(whole transaction, events map[place]*event, tables map[string]*table) {
	var found []*event
	for _, each := range whole.places {
		if event := events[each]; event != nil {
			found = append(found, event)
		}
	}
	sort.SliceStable(found, func(a, b int) bool {
		one, other := found[a], found[b]
		if one.commitLSN != other.commitLSN {
			return one.commitLSN < other.commitLSN
		}
		if one.ordinal != other.ordinal {
			return one.ordinal < other.ordinal
		}
		return one.rank < other.rank
	})
	told := map[string]bool{}
	for _, each := range found {
		if each.rank != 2 { // of a whole table: in every partition, and once for its table
			once := fmt.Sprint(each.line["relation_id"], each.commitLSN, each.ordinal, each.operation())
			if told[once] {
				continue
			}
			told[once] = true
		}
		id := fmt.Sprint(each.line["relation_id"])
		if tables[id] == nil {
			tables[id] = &table{byKey: map[string]row{}}
		}
		applied++
		tables[id].called, tables[id].last = each.line["table"].(string), applied
		tables[id].apply(each)
	}
}
