// The records of a pipeline, as a client of Go that knows nothing of walbridge gets them from a broker.
//
//	go run . <brokers> <pipeline> > records.jsonl
//
// In: brokers, a pipeline whose producer has stopped. Out: a line for each committed record of its topics but those that are
// the producer's own, by topic, partition and offset, in the form that docs/kafka.md gives recorded topics.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"log"
	"os"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 2 * time.Minute

// line has its fields in the order of the recorded topics.
type line struct {
	Topic     string      `json:"topic"`
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	Key       *string     `json:"key"`
	Value     *string     `json:"value"`
	Headers   [][2]string `json:"headers"`
}

func text(data []byte) *string {
	if data == nil {
		return nil
	}
	found := base64.StdEncoding.EncodeToString(data)
	return &found
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: go run . <brokers> <pipeline>")
	}
	brokers, pipeline := strings.Split(os.Args[1], ","), os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumeRegex(),
		kgo.ConsumeTopics("^"+regexp.QuoteMeta(pipeline)+`\.`),
		kgo.ConsumeExcludeTopics("^"+regexp.QuoteMeta(pipeline)+`\.(progress|status)$`),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // markers of transactions, which take the last offsets
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx)
	if err != nil {
		log.Fatal(err)
	}
	left := map[string]map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		of := strings.TrimPrefix(end.Topic, pipeline+".")
		if of == end.Topic || of == "progress" || of == "status" || end.Offset == 0 {
			return
		}
		if left[end.Topic] == nil {
			left[end.Topic] = map[int32]int64{}
		}
		left[end.Topic][end.Partition] = end.Offset
	})
	write(read(ctx, client, left))
}

// read returns once every partition is read to its end.
func read(ctx context.Context, client *kgo.Client, left map[string]map[int32]int64) []line {
	var found []line
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			log.Fatalf("%s[%d]: %v", errs[0].Topic, errs[0].Partition, errs[0].Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if !record.Attrs.IsControl() {
				headers := [][2]string{}
				for _, each := range record.Headers {
					headers = append(headers, [2]string{each.Key, base64.StdEncoding.EncodeToString(each.Value)})
				}
				found = append(found, line{
					record.Topic, record.Partition, record.Offset, text(record.Key), text(record.Value), headers,
				})
			}
			if end, ok := left[record.Topic][record.Partition]; ok && record.Offset+1 >= end {
				delete(left[record.Topic], record.Partition)
				if len(left[record.Topic]) == 0 {
					delete(left, record.Topic)
				}
			}
		})
	}
	return found
}

func write(found []line) {
	sort.Slice(found, func(a, b int) bool {
		one, other := found[a], found[b]
		if one.Topic != other.Topic {
			return one.Topic < other.Topic
		}
		if one.Partition != other.Partition {
			return one.Partition < other.Partition
		}
		return one.Offset < other.Offset
	})
	out := bufio.NewWriter(os.Stdout)
	lines := json.NewEncoder(out)
	for _, each := range found {
		if err := lines.Encode(each); err != nil {
			log.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}
