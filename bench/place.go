package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// Place is where one measurement lives.
type Place struct {
	Dir    string `json:"dir"`    // a folder of its own
	Path   string `json:"path"`   // the database file in it, for subjects on a file
	Server string `json:"server"` // connection string or socket, for subjects on a server
	PID    int    `json:"pid"`    // of the server; zero if there is none
}

// site is a place and what belongs to it in the process that orchestrates.
type site struct {
	Place
	// freeze makes the place ready to be cloned. Nothing may use it any more.
	freeze func() error
	// remove ends what runs there and deletes it.
	remove func() error
}

// host makes places.
type host interface {
	fresh(ctx context.Context) (*site, error)
	// clone makes a copy of a frozen place.
	clone(ctx context.Context, of *site) (*site, error)
	// version is that of the server; empty if there is none.
	version() string
	close() error
}

// files hosts subjects that need nothing but a file.
type files struct {
	dir  string
	next atomic.Int64
}

const databaseFile = "jobs.db"

func (f *files) fresh(context.Context) (*site, error) { return f.make() }

func (f *files) make() (*site, error) {
	dir := filepath.Join(f.dir, fmt.Sprintf("file-%d", f.next.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return &site{
		Place:  Place{Dir: dir, Path: filepath.Join(dir, databaseFile)},
		freeze: func() error { return nil },
		remove: func() error { return os.RemoveAll(dir) },
	}, nil
}

func (f *files) clone(_ context.Context, of *site) (*site, error) {
	s, err := f.make()
	if err != nil {
		return nil, err
	}
	return s, copyDatabase(of.Path, s.Path)
}

func (f *files) version() string { return "" }
func (f *files) close() error    { return nil }

// openToAll lets the user that PostgreSQL runs as reach what is its own below a folder.
func openToAll(dir string) error {
	const mode = 0o755 // there is nothing in it that anybody may not see
	return os.Chmod(dir, mode)
}

// copyDatabase copies an SQLite database that no process has open, and the log that one may have left behind.
func copyDatabase(from, to string) error {
	if err := copyFile(from, to); err != nil {
		return err
	}
	err := copyFile(from+"-wal", to+"-wal")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// copyTree copies a folder of plain files and folders. Sockets are left out.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case entry.Type().IsRegular():
			return copyFile(path, target)
		}
		return nil
	})
}
