package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // the formats that image.Decode knows
	_ "image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/image/draw"

	"github.com/alkstore/alkworker/handlers"
	"github.com/alkstore/alkworker/queue"
)

var extensions = []string{".gif", ".jpeg", ".jpg", ".png"}

// shrink is the handler. It may run more than once for an image, since it writes the same file each time, whole or not
// at all.
func shrink(ctx context.Context, img Image) error {
	src, err := decode(img.Source)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return err // it may still be being written: try again
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, image.ErrFormat):
		return handlers.Fail(err) // trying again will not help
	case err != nil:
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b := src.Bounds()
	scale := min(1, float64(img.Size)/float64(max(b.Dx(), b.Dy())))
	small := image.NewRGBA(image.Rect(0, 0, max(1, int(float64(b.Dx())*scale)), max(1, int(float64(b.Dy())*scale))))
	draw.CatmullRom.Scale(small, small.Bounds(), src, b, draw.Src, nil)
	return writePNG(img.Target, small)
}

func decode(path string) (image.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	img, _, err := image.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", filepath.Base(path), err)
	}
	return img, nil
}

// writePNG writes to a file of another name first: whoever looks at the folder sees whole images only.
func writePNG(path string, img image.Image) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".thumbnail-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(png.Encode(f, img), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// counts are of attempts in this process.
type counts struct {
	processed, retried atomic.Int64
	requeued           int
}

// middleware sees the answer of each attempt.
func (c *counts) middleware(next handlers.Handler) handlers.Handler {
	return handlers.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		err := next.Handle(ctx, job)
		switch {
		case err == nil:
			c.processed.Add(1)
		case handlers.Resolve(err).Kind == handlers.KindRetry && job.Attempt < job.MaxAttempts:
			c.retried.Add(1)
		}
		return err
	})
}
