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

// check ends an example that fails.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// openTemp opens a new database that closeAll closes and removes.
func openTemp() (c *queue.Client, closeAll func()) {
	dir, err := os.MkdirTemp("", "queue-example-")
	check(err)
	c, err = queue.Open(context.Background(), filepath.Join(dir, "jobs.db"), nil)
	check(err)
	return c, func() { check(errors.Join(c.Close(), os.RemoveAll(dir))) }
}

// A producer enqueues, a worker claims and acknowledges. Package runtime does the second half for you.
func Example() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()

	type Email struct{ To, Subject string }
	emails := queue.Define[Email]("emails", queue.Options{MaxAttempts: 5})

	_, err := emails.Enqueue(ctx, c, Email{To: "ada@example.com", Subject: "Hello"}, nil)
	check(err)

	jobs, err := c.Claim(ctx, emails.Name(), "worker-1", 1)
	check(err)
	for _, job := range jobs {
		mail, err := emails.Decode(job.Payload)
		check(err)
		fmt.Printf("to %s: %s (attempt %d of %d)\n", mail.To, mail.Subject, job.Attempt, job.MaxAttempts)
		held, err := c.Ack(ctx, job.Handle())
		check(err)
		fmt.Println("acknowledged:", held[0])
	}
	// Output:
	// to ada@example.com: Hello (attempt 1 of 5)
	// acknowledged: true
}

func ExampleOpen() {
	_, err := queue.Open(context.Background(), ":memory:", nil)
	fmt.Println(err)
	// Output:
	// open: ":memory:" cannot be shared by connections: use a file in a temporary directory, or "./:memory:" for a file of that name
}

// What the handler writes and the end of its job are committed together: the effect happens exactly once.
func ExampleClient_AckTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "queue-example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	db, err := sql.Open("sqlite", queue.SQLiteDSN(filepath.Join(dir, "bank.db")))
	check(err)
	defer func() { check(db.Close()) }()
	_, err = db.ExecContext(ctx, "CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (0)")
	check(err)
	c, err := queue.OpenDB(ctx, db, nil)
	check(err)
	defer func() { check(c.Close()) }()
	deposits := queue.Define[int]("deposits", queue.Options{})
	_, err = deposits.Enqueue(ctx, c, 100, nil)
	check(err)
	jobs, err := c.Claim(ctx, "deposits", "worker-1", 1)
	check(err)

	deposit := func(job *queue.Job) error {
		amount, err := deposits.Decode(job.Payload)
		if err != nil {
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // of no effect after a commit
		if _, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + ?", amount); err != nil {
			return err
		}
		held, err := c.AckTx(ctx, tx, job.Handle())
		if err != nil {
			return err
		}
		if !held[0] {
			return errors.New("the job is not ours any more")
		}
		return tx.Commit()
	}
	fmt.Println(deposit(jobs[0]))
	fmt.Println(deposit(jobs[0]))
	var balance int
	check(db.QueryRowContext(ctx, "SELECT balance FROM account").Scan(&balance))
	fmt.Println("balance:", balance)
	// Output:
	// <nil>
	// the job is not ours any more
	// balance: 100
}

// A loop of one's own: claim what there is a free hand for, and end every claim with exactly one answer.
func ExampleClient_Claim() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()
	numbers := queue.Define[int]("numbers", queue.Options{MaxAttempts: 1})
	_, err := numbers.EnqueueMany(ctx, c, []int{1, 2}, nil)
	check(err)

	for {
		jobs, err := c.Claim(ctx, "numbers", "worker-1", 1)
		check(err)
		if len(jobs) == 0 {
			break // NextReady says for how long
		}
		job := jobs[0]
		if n, err := numbers.Decode(job.Payload); err == nil && n%2 == 1 {
			held, err := c.Ack(ctx, job.Handle())
			check(err)
			fmt.Println(n, "done:", held[0])
			continue
		}
		verdicts, err := c.Retry(ctx, queue.Retry{Job: job, Err: "number is even"})
		check(err)
		fmt.Println(string(job.Payload), verdicts[0])
	}
	// Output:
	// 1 done: true
	// 2 buried
}

func ExampleClient_Heartbeat() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()
	id, err := queue.DefineRaw("slow", queue.Options{}).Enqueue(ctx, c, nil, nil)
	check(err)
	jobs, err := c.Claim(ctx, "slow", "worker-1", 1)
	check(err)

	held, err := c.Heartbeat(ctx, jobs[0].Handle())
	check(err)
	fmt.Println("still ours:", held[0])

	_, err = c.Cancel(ctx, id)
	check(err)
	held, err = c.Heartbeat(ctx, jobs[0].Handle())
	check(err)
	fmt.Println("still ours:", held[0])
	// Output:
	// still ours: true
	// still ours: false
}

func ExampleClient_Retry() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()
	_, err := queue.DefineRaw("calls", queue.Options{}).Enqueue(ctx, c, nil, nil)
	check(err)
	jobs, err := c.Claim(ctx, "calls", "worker-1", 1)
	check(err)

	delay := 10 * time.Minute // without one, the curve of Backoff applies
	verdicts, err := c.Retry(ctx, queue.Retry{Job: jobs[0], Err: "line is busy", Delay: &delay})
	check(err)
	job, err := c.Get(ctx, jobs[0].ID)
	check(err)
	fmt.Println(verdicts[0], job.State, job.LastError)

	// The claim is over, so its handle has no effect any more.
	verdicts, err = c.Retry(ctx, queue.Retry{Job: jobs[0]})
	check(err)
	fmt.Println(verdicts[0])
	// Output:
	// retrying pending line is busy
	// refused
}

// A snoozed job waits without having spent the attempt.
func ExampleClient_Release() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()
	_, err := queue.DefineRaw("calls", queue.Options{}).Enqueue(ctx, c, nil, nil)
	check(err)
	jobs, err := c.Claim(ctx, "calls", "worker-1", 1)
	check(err)
	held, err := c.Release(ctx, queue.Released{Handle: jobs[0].Handle(), Delay: time.Hour})
	check(err)
	job, err := c.Get(ctx, jobs[0].ID)
	check(err)
	fmt.Println(held[0], job.State, job.Attempt)
	// Output:
	// true pending 0
}

// What failed for good waits in the dead letters until somebody has repaired the cause.
func ExampleClient_Requeue() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()
	id, err := queue.DefineRaw("images", queue.Options{}).Enqueue(ctx, c, []byte("a.png"), nil)
	check(err)
	jobs, err := c.Claim(ctx, "images", "worker-1", 1)
	check(err)
	_, err = c.Fail(ctx, queue.Failed{Handle: jobs[0].Handle(), Err: "file is corrupt"})
	check(err)

	dead, err := c.List(ctx, queue.Filter{State: queue.Dead})
	check(err)
	for _, job := range dead {
		fmt.Printf("%s: %s\n", job.Payload, job.LastError)
	}
	found, err := c.Requeue(ctx, id)
	check(err)
	job, err := c.Get(ctx, id)
	check(err)
	fmt.Println(found[0], job.State, job.Attempt, len(job.Failures))
	// Output:
	// a.png: file is corrupt
	// true pending 0 1
}

func ExampleClient_PurgeAll() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()
	n, err := c.PurgeAll(ctx, queue.DeadFilter{Queue: "images", OlderThan: 30 * 24 * time.Hour})
	check(err) // n jobs are gone even if there is an error
	fmt.Println(n)
	// Output:
	// 0
}

// Pages are asked for by the last id of the one before, so that jobs which come and go shift nothing.
func ExampleClient_List() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()
	_, err := queue.Define[int]("numbers", queue.Options{}).EnqueueMany(ctx, c, []int{1, 2, 3, 4, 5}, nil)
	check(err)

	page := queue.Filter{Queue: "numbers", Limit: 2}
	for {
		jobs, err := c.List(ctx, page)
		check(err)
		if len(jobs) == 0 {
			break
		}
		for _, job := range jobs {
			fmt.Printf("%s;", job.Payload)
		}
		fmt.Println()
		page.Before = jobs[len(jobs)-1].ID
	}
	// Output:
	// 5;4;
	// 3;2;
	// 1;
}

func ExampleClient_Pause() {
	ctx := context.Background()
	c, closeAll := openTemp()
	defer closeAll()
	_, err := queue.Define[int]("numbers", queue.Options{}).EnqueueMany(ctx, c, []int{1, 2, 3}, nil)
	check(err)
	check(c.Pause(ctx, "numbers"))
	jobs, err := c.Claim(ctx, "numbers", "worker-1", 10)
	check(err)
	fmt.Println("claimed:", len(jobs))
	stats, err := c.Stats(ctx)
	check(err)
	for _, s := range stats {
		fmt.Println(s.Queue, "ready:", s.Ready, "paused:", s.Paused)
	}
	// Output:
	// claimed: 0
	// numbers ready: 3 paused: true
}

// Whoever outgrows one machine stops the workers, copies, and starts them again with the other DSN. The file is left as
// it is.
func ExampleCopy() {
	ctx := context.Background()
	from, err := queue.Open(ctx, "jobs.db", nil)
	if err != nil {
		panic(err)
	}
	defer from.Close()
	to, err := queue.Open(ctx, "postgres://jobs@db.example.com/jobs", nil)
	if err != nil {
		panic(err)
	}
	defer to.Close()

	copied, err := queue.Copy(ctx, from, to)
	if err != nil {
		panic(err) // whatever is wrong, run it again once that is mended: it goes on where it was
	}
	fmt.Printf("%d jobs wait, %d are dead letters\n", copied.Pending, copied.Dead)
}

// The curve doubles up to the cap; the delay itself is up to a fifth shorter or longer.
func ExampleBackoff() {
	for _, attempt := range []int{1, 2, 3, 10, 1000} {
		curve := min(5*time.Second<<min(attempt-1, 20), time.Hour)
		delay := queue.Backoff(5*time.Second, time.Hour, attempt)
		within := curve*8/10 <= delay && delay <= curve*12/10
		fmt.Println(attempt, curve, within)
	}
	// Output:
	// 1 5s true
	// 2 10s true
	// 3 20s true
	// 10 42m40s true
	// 1000 1h0m0s true
}

func ExampleTransient() {
	err := error(&queue.Error{Op: "claim", Queue: "emails", Err: queue.ErrBusy})
	fmt.Println(err)
	fmt.Println(queue.Transient(err), errors.Is(err, queue.ErrBusy))
	// Output:
	// claim queue "emails": database is locked by another connection
	// true true
}
