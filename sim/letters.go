package sim

import (
	"slices"
	"strings"
)

// letter is a message between two clusters, a request or an answer. What it does is a function of the receiver; it is
// told whether the letter is one that came late or twice only by what it finds.
type letter struct {
	from, to int
	what     string
	deliver  func()
	talk     bool // of a reversal, a restore, or a finding
}

// send puts a letter into the net.
func (w *world) send(from, to *cluster, what string, deliver func()) {
	w.did = true
	w.letters = append(w.letters, &letter{from: from.index, to: to.index, what: what, deliver: deliver,
		talk: !strings.HasPrefix(what, "fetch") && !strings.HasPrefix(what, "group")})
	if len(w.letters) > lettersMax {
		w.letters = w.letters[1:]
	}
}

// keep remembers an answer, to be delivered once more, much later.
func (w *world) keep(deliver func()) {
	if w.chance(4) {
		w.old[w.random.IntN(len(w.old))] = deliver
	}
}

// resend delivers an answer that was delivered long ago.
func (w *world) resend() {
	if deliver := w.old[w.random.IntN(len(w.old))]; deliver != nil && !w.calm {
		w.log("an old answer comes again")
		deliver()
	}
}

// lettersMax bounds what is under way; the oldest is lost.
const lettersMax = 40

func pairOf(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// reaches reports whether two clusters reach each other now.
func (w *world) reaches(a, b *cluster) bool {
	return a.up() && b.up() && !w.parted[pairOf(a.index, b.index)]
}

// carry delivers a letter: mostly one of the oldest, sometimes any; sometimes it is lost, and sometimes it stays and comes again.
func (w *world) carry() {
	if len(w.letters) == 0 {
		return
	}
	at := 0
	if !w.calm {
		at = w.random.IntN(min(3, len(w.letters)))
		if w.chance(6) {
			at = w.random.IntN(len(w.letters))
		}
		if w.chance(2) {
			at = w.talk(at)
		}
	}
	w.deliver(at)
}

func (w *world) deliver(at int) {
	w.did = true
	l := w.letters[at]
	switch {
	case !w.calm && w.chance(w.profile.doubles):
		w.log("letter doubled: %s", l.what)
	default:
		w.letters = append(w.letters[:at], w.letters[at+1:]...)
	}
	if !w.calm && w.chance(w.profile.losses) || !w.reaches(w.clusters[l.from], w.clusters[l.to]) {
		w.log("letter lost: %s", l.what)
		return
	}
	l.deliver()
}

// underWay is where the oldest letter of a kind is, -1 for none.
func (w *world) underWay(kind string) int {
	return slices.IndexFunc(w.letters, func(l *letter) bool { return strings.HasPrefix(l.what, kind) })
}

// talk is the oldest letter that two shells talk by, of which there are few beside fetches; else the one given.
func (w *world) talk(otherwise int) int {
	for i, l := range w.letters {
		if l.talk {
			return i
		}
	}
	return otherwise
}

// howIs begins the question of how a reversal stands, and its answer.
const howIs = "how is "
