package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Payload is what every subject carries as JSON, of payloadSize bytes: encoded by the producer and decoded for the
// handler in every case, also where the subject itself takes bytes.
type Payload struct {
	N   int64  `json:"n"`   // number of the job, counted from zero
	At  int64  `json:"at"`  // when it was due to be enqueued, in Unix nanoseconds, where latency is measured
	Pad string `json:"pad"` // fills up
}

// payloadSize is the length of an encoded payload, in bytes.
const payloadSize = 100

var padding = strings.Repeat("0123456789abcdef", 8)

// newPayload makes a payload whose JSON is payloadSize bytes long.
func newPayload(n, at int64) Payload {
	used := len(fmt.Sprintf(`{"n":%d,"at":%d,"pad":""}`, n, at))
	return Payload{N: n, At: at, Pad: padding[:max(payloadSize-used, 0)]}
}

// largePayload is about size bytes long and of random digits: one server compresses what repeats.
func largePayload(n int64, size int) Payload {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	random := rand.New(rand.NewPCG(uint64(n), 1))
	pad := make([]byte, size)
	for i := range pad {
		pad[i] = digits[random.IntN(len(digits))]
	}
	return Payload{N: n, Pad: string(pad)}
}

func encode(p Payload) ([]byte, error) { return json.Marshal(p) }

func decode(data []byte) (p Payload, err error) {
	err = json.Unmarshal(data, &p)
	return p, err
}

// Subject is one job queue, opened in the process that measures. Enqueue and EnqueueMany may be called from any number
// of goroutines, also while the subject works.
type Subject interface {
	// Enqueue returns when the job is stored, as durably as the subject's settings say.
	Enqueue(ctx context.Context, p Payload) error
	// EnqueueMany stores all or none, by the fastest means the subject offers. errors.ErrUnsupported if it has none.
	EnqueueMany(ctx context.Context, ps []Payload) error
	// Work starts a worker and returns; stop ends it in good order. It is called at most once.
	Work(ctx context.Context, w Workload) (stop func() error, err error)
	// Left counts the jobs that are not done: what was enqueued and not yet marked as done, or deleted, in the database.
	Left(ctx context.Context) (int, error)
	Close() error
}

// Workload is what a worker is started for.
type Workload struct {
	// Queues to serve; jobs come in the first only.
	Queues int
	// Slots is the concurrency for the subjects that leave it to the caller. Zero means the subject's default.
	Slots int
	// Busy selects the settings for throughput over those for an idle worker, where the two differ.
	Busy bool
	// Foreign says that the jobs come from another process.
	Foreign bool
	// Handle is called for each job, from many goroutines.
	Handle func(p Payload)
}

// liver is a subject whose claims can be operated by hand.
type liver interface {
	// Live enqueues one job, claims it, renews the claim some times, and ends the job.
	Live(ctx context.Context, p Payload, heartbeats int) error
}

// logger is a subject that can say how many bytes its database has written to its log.
type logger interface {
	LogBytes(ctx context.Context) (int64, error)
}

// queueName names the i-th queue.
func queueName(i int) string {
	if i == 0 {
		return "bench"
	}
	return fmt.Sprintf("bench-%d", i)
}

// Spec describes one subject with its settings.
type Spec struct {
	Name    string
	Kind    Kind
	Server  ServerKind
	Sync    string // FULL or NORMAL, for files
	Driver  driver // of peers on a file
	Eager   string // a polling interval or such, for variants of one subject; the subject knows what it means
	Modules []string
	// Seeder names the subject that fills databases for this one, where another with the same files is faster or has done
	// so already. Empty means this one.
	Seeder string
	// Settings says how the subject is set up, for the reader of the report.
	Settings string
	// Only restricts a variant to some work; empty means all.
	Only []string
	// Cannot says why some work is impossible, by its id.
	Cannot map[string]string

	Open func(ctx context.Context, s *Spec, p Place) (Subject, error)
	// Steps replace what is done through a Subject; see floor.go.
	Steps map[string]func(ctx context.Context, c *child) (Metrics, error)
}

// Kind says what a subject is compared as.
type Kind string

// The kinds of subjects.
const (
	Ours       Kind = "ours"
	SQLitePeer Kind = "sqlite peer"
	ServerPeer Kind = "server peer"
	Floor      Kind = "floor"
)

// ServerKind says what a subject needs to be running.
type ServerKind string

// The servers.
const (
	NoServer    ServerKind = ""
	Postgres    ServerKind = "postgres"
	RedisEvery  ServerKind = "redis, appendfsync everysec"
	RedisAlways ServerKind = "redis, appendfsync always"
)

// why says why a subject does not do some work; empty means that it does.
func (s *Spec) why(work string) string {
	if len(s.Only) > 0 {
		for _, w := range s.Only {
			if w == work {
				return ""
			}
		}
		return onlyElsewhere
	}
	if work == "W13" && s.Server != Postgres {
		return onlyElsewhere
	}
	return s.Cannot[work]
}

// onlyElsewhere is the reason of a variant that exists for other work, and of a subject that some work is not about; it
// is not reported.
const onlyElsewhere = "for other work"

// subjects are all there are, in the order of the report.
func subjects() []*Spec {
	var all []*Spec
	for _, group := range [][]*Spec{
		alkworkerSpecs(), backliteSpecs(), goqiteSpecs(), riverSQLiteSpecs(), riverPostgresSpecs(), asynqSpecs(), floorSpecs(),
		cgoSpecs(),
	} {
		all = append(all, group...)
	}
	return all
}

func subject(name string) (*Spec, error) {
	for _, s := range subjects() {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("there is no subject %q", name)
}
