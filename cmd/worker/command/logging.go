package command

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// newLogger writes JSON if asked for, lines for people on a terminal, with colours unless NO_COLOR is set to anything but
// nothing, and lines of key=value everywhere else.
func newLogger(w io.Writer, level slog.Level, asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	switch {
	case asJSON:
		return slog.New(slog.NewJSONHandler(w, options))
	case isTerminal(w):
		noColor := os.Getenv("NO_COLOR") != ""
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000", NoColor: noColor}))
	default:
		return slog.New(slog.NewTextHandler(w, options))
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

// parseLevel reads the name of a level.
func parseLevel(s string) (slog.Level, error) {
	switch s {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	default:
		return 0, fmt.Errorf("level %q is none of debug, info, warn and error", s)
	}
}
