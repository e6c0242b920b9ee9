package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// damage is a folder of images in which one file is cut in half.
type damage struct {
	dir   string
	file  string
	whole []byte
}

// damagedName is the image to damage.
const damagedName = "video-001.png"

// demonstration copies the images of Go's own tests to a new folder and damages one of them.
func demonstration(ctx context.Context) (_ *damage, err error) {
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go's own images: go env GOROOT: %w", err)
	}
	dir, err := os.MkdirTemp("", "images")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	source := filepath.Join(string(bytes.TrimSpace(goroot)), "src", "image", "testdata")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return nil, fmt.Errorf("copy the images of Go's own tests: %w; name a folder of images with -in", err)
	}
	d := &damage{dir: dir, file: filepath.Join(dir, damagedName)}
	if d.whole, err = os.ReadFile(d.file); err != nil {
		return nil, err
	}
	return d, os.WriteFile(d.file, d.whole[:len(d.whole)/2], 0o600)
}

func (d *damage) repair() error { return os.WriteFile(d.file, d.whole, 0o600) }
