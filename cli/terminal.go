package cli

import (
	"os"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// The size that a terminal is taken to have where it does not say.
const (
	usualWidth  = 80
	usualHeight = 24
)

// isTerminal reports whether a person is at the other end of a stream.
func isTerminal(stream any) bool {
	file, is := stream.(*os.File)
	if !is {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// terminalSize is how many characters and lines a terminal shows now: people change it.
func terminalSize(stream any) (width, height int) {
	if file, is := stream.(*os.File); is {
		size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
		if err == nil && size.Col > 0 && size.Row > 0 {
			return int(size.Col), int(size.Row)
		}
	}
	return usualWidth, usualHeight
}

// withoutEcho keeps a terminal from showing what is typed, until the answer is called.
func withoutEcho(file *os.File) (again func()) {
	fd := int(file.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return func() {}
	}
	quiet := *before
	quiet.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, setTermios, &quiet); err != nil {
		return func() {}
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }
}

// width is how many characters fit on a line of the output; 0 where it is no terminal.
func (a *app) width() int {
	if !isTerminal(a.out) {
		return 0
	}
	width, _ := terminalSize(a.out)
	return width
}

// fit cuts a line to a terminal's width, less the last column, which makes some terminals go to the next line.
func fit(line string, width int) string {
	if utf8.RuneCountInString(line) < width || width < 2 {
		return line
	}
	return string([]rune(line)[:width-2]) + "…"
}
