package torture

func serveChild() bool { return false }
