package main

import (
	"math"
	"testing"
)

func TestPayload(t *testing.T) {
	for _, n := range []int64{0, 9, 10, 999_999, 1_000_000} {
		for _, at := range []int64{0, 1764432000123456789} {
			p := newPayload(n, at)
			data, err := encode(p)
			if err != nil {
				t.Fatal(err)
			}
			if len(data) != payloadSize {
				t.Errorf("job %d at %d has %d bytes, want %d: %s", n, at, len(data), payloadSize, data)
			}
			if back, err := decode(data); err != nil || back != p {
				t.Errorf("got %+v, %v, want %+v", back, err, p)
			}
		}
	}
	if got := len(largePayload(1, 1<<20).Pad); got != 1<<20 {
		t.Errorf("a large payload has %d bytes, want %d", got, 1<<20)
	}
	if largePayload(1, 100) == largePayload(2, 100) {
		t.Error("two large payloads are the same")
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, c := range []struct {
		values []int
		p      float64
		want   int
	}{
		{nil, 50, 0}, {[]int{7}, 50, 7}, {[]int{7}, 99, 7}, {[]int{2, 1}, 50, 1}, {[]int{3, 1, 2}, 50, 2},
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100},
	} {
		if got := percentile(c.values, c.p); got != c.want {
			t.Errorf("the %v%% percentile of %v is %d, want %d", c.p, c.values, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.values, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v, want NaN", got)
	}
}

func TestLedger(t *testing.T) {
	l := newLedger(70)
	for n := range int64(69) {
		l.mark(n)
	}
	l.mark(3)
	l.mark(70)
	l.mark(-1)
	select {
	case <-l.done:
		t.Error("done with one job to come")
	default:
	}
	if err := l.check(false); err == nil {
		t.Error("check finds nothing wrong with a missing job and two strangers")
	}
	l.mark(69)
	<-l.done
	m := Metrics{}
	l.report(m)
	if m["handled"] != 70 || m["duplicates"] != 1 || m["strangers"] != 2 {
		t.Errorf("got %v, want 70 handled, 1 duplicate, 2 strangers", m)
	}
}

func TestOpenLedger(t *testing.T) {
	for _, late := range []bool{false, true} {
		l := newOpenLedger(100)
		if !late {
			l.expect(2)
		}
		l.mark(5) // numbers may have gaps
		l.mark(7)
		if late {
			select {
			case <-l.done:
				t.Error("done before it is known how many there are")
			default:
			}
			l.expect(2)
		}
		<-l.done
		if err := l.check(false); err != nil {
			t.Errorf("check: %v", err)
		}
	}
}

func TestTail(t *testing.T) {
	var kept tail
	for range 1000 {
		if n, err := kept.Write([]byte("noise\n")); n != 6 || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if _, err := kept.Write([]byte("the end")); err != nil {
		t.Fatal(err)
	}
	said := kept.String()
	if len(said) > tailBytes || said[len(said)-7:] != "the end" {
		t.Errorf("kept %d bytes that end in %q", len(said), said[len(said)-7:])
	}
}
