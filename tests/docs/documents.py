"""What the documents of this repository say: their code blocks, the commands in their text, their links and headings."""

import dataclasses, pathlib, re, subprocess

# Programs whose name at the start of a code span makes it a command.
PROGRAM = re.compile(r"^(tranche|kubectl|helm|docker|podman|ctr|kind|skopeo|ctest|crictl|systemctl|modprobe|curl|cat|grep|git|sudo|apt-get|nvidia-ctk"
                     r"|nvidia-smi|\./dev|bench/run|(scripts|deploy|tests|build)/[\w./-]+)(?= |$)")
FENCE = re.compile(r"^\s*```(\w*)")


@dataclasses.dataclass
class Block:
    document: str
    line: int
    language: str
    text: str


@dataclasses.dataclass
class Span:
    document: str
    line: int
    text: str


def documents(root):
    """Every Markdown file that is kept, but transcripts of what was measured once, and what others wrote."""
    names = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if not name.startswith(("docs/internals/evidence/", "proto/"))]


def blocks_of(root, name):
    found, current = [], None
    for number, line in enumerate((pathlib.Path(root) / name).read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if fence and current is None:
            current = Block(name, number, fence.group(1), "")
        elif fence:
            found.append(current)
            current = None
        elif current is not None:
            current.text += line + "\n"
    if current is not None:
        raise ValueError(f"{name}:{current.line}: the block has no end")
    return found


def text_lines(root, name):
    """(number, line) outside of code blocks."""
    inside = False
    for number, line in enumerate((pathlib.Path(root) / name).read_text().splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def spans_of(root, name):
    """Code spans that are commands; a table's \\| is a bar."""
    for number, line in text_lines(root, name):
        for text in re.findall(r"`([^`]+)`", line):
            text = text.replace("\\|", "|").strip()
            if PROGRAM.match(text):
                yield Span(name, number, text)


def links_of(root, name):
    for number, line in text_lines(root, name):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            yield number, target
        for target in re.findall(r'<img[^>]* src="([^"]+)"', line):
            yield number, target


def anchors_of(root, name):
    """As GitHub makes them: lower case, punctuation gone, blanks to dashes, repeated ones numbered."""
    seen, anchors = {}, set()
    for _, line in text_lines(root, name):
        heading = re.match(r"^#{1,6} +(.*)", line)
        if not heading:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        anchors.add(f"{anchor}-{count}" if count else anchor)
    return anchors


def commands_of(block):
    """The commands of a block, each with what belongs to it: lines that go on, and here-documents."""
    lines, commands, at = block.text.splitlines(), [], 0
    while at < len(lines):
        line, first = lines[at], at
        at += 1
        if block.language == "console":
            if not line.startswith("$ "):
                continue  # what it prints
            line = line[2:]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        while line.rstrip().endswith("\\") and at < len(lines):
            line += "\n" + lines[at]
            at += 1
        here = re.search(r"<<'?(\w+)'?", line)
        while here and at < len(lines):
            line += "\n" + lines[at]
            at += 1
            if lines[at - 1] == here.group(1):
                break
        commands.append(Span(block.document, block.line + 1 + first, line))
    return commands
