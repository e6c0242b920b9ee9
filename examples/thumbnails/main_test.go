package main

import (
	"fmt"
	"image"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wantLines checks that each line is there, once.
func wantLines(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, line := range want {
		if n := len(regexp.MustCompile(`(?m)^(?:`+line+`)$`).FindAllString(got, -1)); n != 1 {
			t.Errorf("got %d lines %q, want one, in\n%s", n, line, got)
		}
	}
}

func TestDemonstration(t *testing.T) {
	d, err := demonstration(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d.dir) })
	images, err := os.ReadDir(d.dir) // how many Go's tests have is up to its version
	if err != nil {
		t.Fatal(err)
	}
	o := options{out: t.TempDir(), size: 40, workers: 4}
	var out strings.Builder
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.String(),
		fmt.Sprintf(`%d images in .*, 4 at the same time`, len(images)),
		`video-001.png is cut in half: it will fail three times`,
		`dead after attempt 3 of 3: job \d+, video-001.png: decode video-001.png: .*`,
		`repairing video-001.png`,
		fmt.Sprintf(`processed %d`, len(images)), `retried   2`, `requeued  1`, `dead      0`, `time      \S+`)

	formats := make(map[string]int)
	small, err := filepath.Glob(filepath.Join(o.out, "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range small {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		c, format, err := image.DecodeConfig(f)
		if cerr := f.Close(); err != nil || cerr != nil {
			t.Fatal(path, err, cerr)
		}
		if format != "png" || max(c.Width, c.Height) != 40 {
			t.Errorf("%s: got %s of %dx%d, want png with a longer side of 40", path, format, c.Width, c.Height)
		}
		formats[filepath.Ext(strings.TrimSuffix(path, ".png"))]++
	}
	if len(small) != len(images) || formats[".png"] == 0 || formats[".jpeg"] == 0 || formats[".gif"] == 0 {
		t.Errorf("got %d thumbnails of %v, want %d of png, jpeg and gif", len(small), formats, len(images))
	}
}

func TestFolder(t *testing.T) {
	d, err := demonstration(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d.dir) })
	o := options{in: t.TempDir(), out: t.TempDir(), size: 20, workers: 2}
	files := map[string][]byte{"good.png": d.whole, "bad.PNG": []byte("not an image"), "notes.txt": []byte("left alone")}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(o.in, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.String(),
		`2 images in .*`,
		`dead after attempt 1 of 3: job \d+, bad.PNG: decode bad.PNG: image: unknown format`,
		`processed 1`, `retried   0`, `requeued  0`, `dead      1`)

	if err := os.WriteFile(filepath.Join(o.in, "bad.PNG"), d.whole, 0o600); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.String(), `processed 3`, `retried   0`, `requeued  1`, `dead      0`)
}

func TestBadOptions(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for name, tc := range map[string]struct {
		options
		want string
	}{
		"missing_folder": {options{in: missing, size: 20, workers: 1}, missing},
		"no_pixels":      {options{in: missing, workers: 1}, "-size 0"},
		"no_workers":     {options{in: missing, size: 20, workers: -1}, "-workers -1"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.out = t.TempDir()
			err := run(t.Context(), tc.options, &strings.Builder{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error that names %s", err, tc.want)
			}
		})
	}
}
