// Embedded is one process that takes orders over HTTP and works them off itself.
//
//	go run ./examples/embedded
//	curl -d 'Grace Hopper' http://127.0.0.1:8080/greetings
//	curl http://127.0.0.1:8080/greetings/1
//
// SIGINT or SIGTERM stops it in order: no new requests, no new jobs, and what runs is finished. What is left in the
// database is done after the next start.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
	"github.com/alkstore/alkworker/runtime"
)

// Greeting is the payload.
type Greeting struct{ Name string }

var greetings = queue.Define[Greeting]("greetings", queue.Options{MaxAttempts: 5})

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	db := flag.String("db", "embedded.db", "database file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *addr)
	if err == nil {
		err = run(ctx, listener, *db, os.Stdout)
	}
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run serves and works until ctx ends, then finishes what it has begun.
func run(ctx context.Context, listener net.Listener, db string, out io.Writer) (err error) {
	client, err := queue.Open(ctx, db, nil)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	registry := handlers.NewRegistry()
	handlers.Handle(registry, greetings, func(_ context.Context, g Greeting) error {
		_, err := fmt.Fprintf(out, "Hello, %s!\n", g.Name)
		return err
	}, handlers.Options{Timeout: time.Minute})
	worker, err := runtime.New(client, registry, runtime.Config{Drain: 20 * time.Second})
	if err != nil {
		return errors.Join(err, listener.Close())
	}

	if _, err := fmt.Fprintf(out, "listening on http://%s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: routes(client), ReadHeaderTimeout: 5 * time.Second}
	// If one of the two fails, the other one stops as well.
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return worker.Run(ctx) })
	group.Go(func() error { return serve(ctx, server, listener) })
	return group.Wait()
}

// serve answers requests until ctx ends, and then finishes those that it has begun.
func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	shutdown := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		shutdown <- server.Shutdown(ctx)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	return <-shutdown
}

func routes(client *queue.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /greetings", func(w http.ResponseWriter, r *http.Request) {
		name, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1000))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id, err := greetings.Enqueue(r.Context(), client, Greeting{Name: strings.TrimSpace(string(name))}, nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Location", fmt.Sprintf("/greetings/%d", id))
		w.WriteHeader(http.StatusAccepted) // stored: it will be done, but not yet
	})
	mux.HandleFunc("GET /greetings/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		job, err := client.Get(r.Context(), id)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case job == nil: // a job that is done is no longer there
			http.Error(w, "done, or never enqueued", http.StatusNotFound)
		default:
			_, _ = fmt.Fprintln(w, job.State) // the client may be gone
		}
	})
	return mux
}
