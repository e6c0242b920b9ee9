package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// healthTimeout is how long the database may take to answer before a worker counts as unhealthy.
const healthTimeout = 2 * time.Second

// listenAddress checks HOST:PORT. Without a host it is the loopback address: to be reachable from other machines, the
// address of an interface, or 0.0.0.0, has to be written. // K99
func listenAddress(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("address %q is not HOST:PORT, such as 127.0.0.1:8080 or :8080", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("address %q has no port number within 0 and 65535", addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// healthHandler answers GET /healthz with 200 and "ok" while the database answers, and with 503 otherwise. Everything
// else is 404.
func healthHandler(c *queue.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if _, err := c.Now(ctx); err != nil {
			// Without the reason: it names files, and anybody may ask.
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, "the database does not answer")
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	return mux
}

// serveHTTP serves h until ctx ends, and closes the listener.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http on %s: %w", l.Addr(), err)
	}
	return nil
}
