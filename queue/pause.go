package queue

import "context"

// Pause stops new claims of a queue by every process, whether or not it has jobs. Running jobs go on, and jobs may be
// enqueued. Pausing a paused queue changes nothing.
func (c *Client) Pause(ctx context.Context, queue string) error {
	return c.setPaused(ctx, "pause", queue, true)
}

// Resume ends a pause. Resuming a queue that is not paused changes nothing.
func (c *Client) Resume(ctx context.Context, queue string) error {
	return c.setPaused(ctx, "resume", queue, false)
}

func (c *Client) setPaused(ctx context.Context, op, queue string, paused bool) error {
	err := ValidateName(queue)
	if err == nil {
		err = c.store.SetPaused(ctx, queue, paused)
	}
	return failed(op, queue, 0, err)
}
