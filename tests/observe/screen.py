"""A program on a pseudo-terminal, and what its screen shows: the control sequences that `tranche top` uses, and no others."""

import fcntl, os, pty, re, select, signal, struct, termios, time

SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")
SEQUENCES = {"?1049h", "?1049l", "?25h", "?25l", "H", "K", "J", "m"}


class Screen:
    def __init__(self, argv, columns=80, lines=24, env=None):
        self.columns, self.lines, self.unknown, self.colours, self.bytes = columns, lines, [], 0, ""
        self.rows, self.y, self.x = [""] * lines, 0, 0
        self.styles, self.style = [{} for _ in range(lines)], ""  # of each row: column → numbers of the last "m" sequence
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.execvpe(argv[0], argv, {**(env or os.environ), "TERM": "xterm"})
        self.status = None

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.rows, self.styles = [""] * lines, [{} for _ in range(lines)]
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def read(self, seconds):
        """False when the program has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not select.select([self.fd], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                return False
            self.bytes += data.decode(errors="replace")
            self.bytes = self._take(self.bytes)
        return True

    def _take(self, text):
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = SEQUENCE.match(text, at)
                if not found:
                    if len(text) - at < 12:
                        return text[at:]  # the rest of it comes
                    self.unknown.append(text[at : at + 8])
                    at += 1
                    continue
                self._control(found.group(1), found.group(2))
                at = found.end()
            else:
                self._put(text[at])
                at += 1
        return ""

    def _control(self, numbers, letter):
        name = (numbers if numbers.startswith("?") else "") + letter
        if name not in SEQUENCES:
            self.unknown.append(numbers + letter)
        if letter == "H":
            self.y = self.x = 0
        elif letter == "K":
            self._cut()
        elif letter == "J":
            self._cut()
            self.rows[self.y + 1 :] = [""] * (self.lines - self.y - 1)
            self.styles[self.y + 1 :] = [{} for _ in range(self.lines - self.y - 1)]
        elif letter == "m":
            self.colours += 1
            self.style = "" if numbers in ("", "0") else numbers

    def _cut(self):
        self.rows[self.y] = self.rows[self.y][: self.x]
        self.styles[self.y] = {column: style for column, style in self.styles[self.y].items() if column < self.x}

    def _put(self, character):
        if character == "\r":
            self.x = 0
        elif character == "\n":
            self.y = min(self.y + 1, self.lines - 1)
        else:
            self.rows[self.y] = self.rows[self.y][: self.x].ljust(self.x) + character + self.rows[self.y][self.x + 1 :]
            self.styles[self.y][self.x] = self.style
            self.x += 1

    def text(self):
        return "\n".join(self.rows)

    def until(self, wanted, seconds=60):
        """Whether the screen comes to be as `wanted` (text, or a function of the text) says."""
        wanted = (lambda text, part=wanted: part in text) if isinstance(wanted, str) else wanted
        end = time.monotonic() + seconds
        while not wanted(self.text()):
            if time.monotonic() > end or not self.read(0.1):
                return wanted(self.text())
        return True

    def end(self, seconds=60):
        """Its exit status, once it has ended; None if it does not."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self.read(0.05)
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None
