//go:build unix

package exec_test

import (
	"context"
	"fmt"
	"os"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/handlers/exec"
	"github.com/alkstore/alkworker/queue"
)

func ExampleNew() {
	h, err := exec.New(`sh -c 'echo "attempt $JOB_ATTEMPT: $(cat)"'`, exec.Options{Stdout: os.Stdout})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := handlers.NewRegistry()
	r.Register("greetings", h, handlers.Options{Concurrency: 4})

	err = h.Handle(context.Background(), &queue.Job{Queue: "greetings", Attempt: 1, Payload: []byte("hello")})
	fmt.Println(handlers.Resolve(err).Kind)
	// Output:
	// attempt 1: hello
	// ack
}

// The exit status is the answer, and standard error its text.
func ExampleNew_failure() {
	for _, status := range []int{1, exec.ExitFail} {
		h, err := exec.New(fmt.Sprintf(`sh -c 'echo "cannot do it" >&2; exit %d'`, status), exec.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		a := handlers.Resolve(h.Handle(context.Background(), &queue.Job{}))
		fmt.Printf("%s: %s\n", a.Kind, a.Text)
	}
	// Output:
	// retry: cannot do it
	// fail: cannot do it
}
