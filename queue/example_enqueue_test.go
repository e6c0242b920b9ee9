package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/alkstore/alkworker/queue"
)

func ExampleDefine() {
	type Thumbnail struct {
		Path string
		Size int
	}
	// Shared by the producer and the handler, so that the compiler checks the payload on both sides.
	thumbnails := queue.Define[Thumbnail]("thumbnails", queue.Options{
		VisibilityTimeout: time.Minute,
		BackoffBase:       10 * time.Second,
	})
	o := thumbnails.Options()
	fmt.Println(thumbnails.Name(), o.VisibilityTimeout, o.MaxAttempts, o.BackoffBase)

	_, err := thumbnails.Decode([]byte(`{"Path": 5}`))
	fmt.Println(err)
	// Output:
	// thumbnails 1m0s 20 10s
	// decode queue "thumbnails": payload of 11 bytes is no queue_test.Thumbnail: json: cannot unmarshal number into Go struct field Thumbnail.Path of type string
}

func ExampleDefineRaw() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()

	blobs := queue.DefineRaw("blobs", queue.Options{})
	id, err := blobs.Enqueue(ctx, c, []byte("any \x00 bytes \xff"), nil)
	check(err)
	job, err := c.Get(ctx, id)
	check(err)
	fmt.Printf("%q\n", job.Payload)
	// Output:
	// "any \x00 bytes \xff"
}

func ExampleQueue_Enqueue() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()

	reports := queue.Define[string]("reports", queue.Options{MaxAttempts: 10})
	id, err := reports.Enqueue(ctx, c, "monthly", &queue.EnqueueOptions{
		Delay:       time.Hour,
		Expires:     24 * time.Hour,
		Priority:    5,
		MaxAttempts: 1, // for this job only
	})
	check(err)
	job, err := c.Get(ctx, id)
	check(err)
	fmt.Println(job.State, "ready after", job.RunAt.Sub(job.CreatedAt), "expires after", job.ExpiresAt.Sub(job.CreatedAt))
	fmt.Println("priority", job.Priority, "attempts", job.MaxAttempts)

	// A job that could never run is refused.
	_, err = reports.Enqueue(ctx, c, "late", &queue.EnqueueOptions{Delay: time.Hour, Expires: time.Minute})
	fmt.Println(errors.Is(err, queue.ErrExpiresFirst))
	// Output:
	// pending ready after 1h0m0s expires after 24h0m0s
	// priority 5 attempts 1
	// true
}

func ExampleQueue_EnqueueMany() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()

	numbers := queue.Define[int]("numbers", queue.Options{})
	ids, err := numbers.EnqueueMany(ctx, c, []int{10, 20, 30}, nil)
	check(err)
	fmt.Println(len(ids), "jobs, all or none")
	// Output:
	// 3 jobs, all or none
}

// The order and the job that follows from it exist together or not at all.
func ExampleQueue_EnqueueTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "queue-example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	db, err := sql.Open("sqlite", queue.SQLiteDSN(filepath.Join(dir, "shop.db")))
	check(err)
	defer func() { check(db.Close()) }()
	_, err = db.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
	check(err)
	c, err := queue.OpenDB(ctx, db, nil)
	check(err)
	defer func() { check(c.Close()) }()

	invoices := queue.Define[string]("invoices", queue.Options{})
	order := func(item string, commit bool) {
		tx, err := db.BeginTx(ctx, nil)
		check(err)
		defer func() { _ = tx.Rollback() }() // of no effect after a commit
		_, err = tx.ExecContext(ctx, "INSERT INTO orders (item) VALUES (?)", item)
		check(err)
		_, err = invoices.EnqueueTx(ctx, c, tx, item, nil)
		check(err)
		if commit {
			check(tx.Commit())
		}
	}
	order("lamp", false)
	order("chair", true)

	jobs, err := c.Claim(ctx, "invoices", "worker-1", 10)
	check(err)
	for _, job := range jobs {
		fmt.Printf("%s\n", job.Payload)
	}
	// Output:
	// "chair"
}

// Jobs of different queues go into one call through their untyped form.
func ExampleClient_Enqueue() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()

	numbers := queue.Define[int]("numbers", queue.Options{})
	words := queue.Define[string]("words", queue.Options{})
	one, err := numbers.Job(1, nil)
	check(err)
	two, err := words.Job("two", &queue.EnqueueOptions{Priority: 1})
	check(err)
	ids, err := c.Enqueue(ctx, one, two)
	check(err)
	fmt.Println(len(ids))

	// All problems are reported together, and nothing is stored.
	_, err = c.Enqueue(ctx, queue.NewJob{Queue: "", EnqueueOptions: queue.EnqueueOptions{Delay: -time.Second}})
	fmt.Println(err)
	fmt.Println(errors.Is(err, queue.ErrInvalid))
	// Output:
	// 2
	// enqueue: queue name is empty
	// delay -1s is negative
	// true
}
