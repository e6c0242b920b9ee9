// Thumbnails makes small versions of a folder of images, several at the same time: PNG, JPEG and GIF in, PNG out.
//
//	go run ./examples/thumbnails [-in DIR] [-out DIR] [-size PIXELS] [-workers N]
//
// Without -in it takes a copy of the images that Go's own tests use, with one of them cut in half, and shows what
// becomes of that one: it is tried three times and goes to the dead letters; then the file is repaired, the job is
// requeued, and done.
//
// With -in, files that cannot be read stay in the dead letters, in thumbnails.db in the output folder. The next run
// tries them again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// Image is the payload: a file to make a small version of.
type Image struct {
	Source string // path of the image
	Target string // path of the PNG to write
	Size   int    // pixels of the longer side
}

var thumbnails = queue.Define[Image]("thumbnails", queue.Options{
	MaxAttempts: 3,
	BackoffBase: time.Second,
})

type options struct {
	in, out       string // folders; an empty in means the demonstration
	size, workers int
}

func main() {
	var o options
	flag.StringVar(&o.in, "in", "", "folder of images; empty: the images of Go's own tests, one of them damaged")
	flag.StringVar(&o.out, "out", "thumbnails", "folder to write to")
	flag.IntVar(&o.size, "size", 64, "pixels of the longer side")
	flag.IntVar(&o.workers, "workers", goruntime.NumCPU(), "images at the same time")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	start := time.Now()
	if o.size < 1 || o.workers < 1 {
		return fmt.Errorf("-size %d and -workers %d have to be at least 1", o.size, o.workers)
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	database := filepath.Join(o.out, "thumbnails.db")
	var damaged *damage
	if o.in == "" {
		if damaged, err = demonstration(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(damaged.dir)) }()
		o.in = damaged.dir
		database = filepath.Join(damaged.dir, "thumbnails.db") // its jobs end with the folder
	}
	client, err := queue.Open(ctx, database, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	p := &press{client: client, options: o, out: out}
	if damaged == nil { // perhaps somebody has repaired what an earlier run could not read
		if err := p.requeue(ctx); err != nil {
			return err
		}
	}
	n, err := p.enqueue(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d images in %s, %d at the same time\n", n, o.in, o.workers)
	if damaged != nil {
		fmt.Fprintf(out, "%s is cut in half: it will fail three times\n", filepath.Base(damaged.file))
	}
	if err := p.work(ctx); err != nil {
		return err
	}
	if damaged != nil {
		if err := p.printDead(ctx); err != nil {
			return err
		}
		fmt.Fprintf(out, "repairing %s\n", filepath.Base(damaged.file))
		if err := damaged.repair(); err != nil {
			return err
		}
		if err := p.requeue(ctx); err != nil {
			return err
		}
		if err := p.work(ctx); err != nil {
			return err
		}
	}
	return p.summary(ctx, time.Since(start))
}

// press makes thumbnails and keeps count.
type press struct {
	client  *queue.Client
	options options
	out     io.Writer
	counts  counts
}

// enqueue stores a job for each image of the folder, all or none, and says how many there are.
func (p *press) enqueue(ctx context.Context) (int, error) {
	entries, err := os.ReadDir(p.options.in)
	if err != nil {
		return 0, err
	}
	var images []Image
	for _, e := range entries {
		if e.Type().IsRegular() && slices.Contains(extensions, strings.ToLower(filepath.Ext(e.Name()))) {
			images = append(images, Image{
				Source: filepath.Join(p.options.in, e.Name()),
				Target: filepath.Join(p.options.out, e.Name()+".png"),
				Size:   p.options.size,
			})
		}
	}
	_, err = thumbnails.EnqueueMany(ctx, p.client, images, nil)
	return len(images), err
}

// work runs the jobs until none is left to do or to try again.
func (p *press) work(ctx context.Context) error {
	registry := handlers.NewRegistry()
	registry.Use(p.counts.middleware)
	handlers.Handle(registry, thumbnails, shrink, handlers.Options{Timeout: time.Minute})
	worker, err := runtime.New(p.client, registry, runtime.Config{
		Concurrency: p.options.workers,
		UntilIdle:   true,
	})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func (p *press) requeue(ctx context.Context) error {
	n, err := p.client.RequeueAll(ctx, queue.DeadFilter{Queue: thumbnails.Name()})
	p.counts.requeued += n
	return err
}

// dead are the jobs in the dead letters.
func (p *press) dead(ctx context.Context) ([]*queue.Job, error) {
	return p.client.List(ctx, queue.Filter{Queue: thumbnails.Name(), State: queue.Dead, PayloadLimit: -1})
}

func (p *press) printDead(ctx context.Context) error {
	jobs, err := p.dead(ctx)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		image, err := thumbnails.Decode(job.Payload)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.out, "dead after attempt %d of %d: job %d, %s: %s\n",
			job.Attempt, job.MaxAttempts, job.ID, filepath.Base(image.Source), job.LastError)
	}
	return nil
}

func (p *press) summary(ctx context.Context, took time.Duration) error {
	dead, err := p.dead(ctx)
	if err != nil {
		return err
	}
	if err := p.printDead(ctx); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "\nprocessed %d\nretried   %d\nrequeued  %d\ndead      %d\ntime      %v\n",
		p.counts.processed.Load(), p.counts.retried.Load(), p.counts.requeued, len(dead), took.Round(time.Millisecond))
	fmt.Fprintf(p.out, "thumbnails are in %s\n", p.options.out)
	return nil
}
