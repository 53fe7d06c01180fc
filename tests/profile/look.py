"""Looks at a screenshot of a profile page: is it the size asked for, is it dark or light, is something drawn all over?

    python3 look.py SCREENSHOT WIDTH HEIGHT light|dark

Needs nothing but Python. Fonts and their smoothing differ between machines, so no pixel is compared; what must hold on
every machine is looked at instead: the size, the brightness of the ground, and that text or drawings cross every band
of the page's upper part.
"""

import struct
import sys
import zlib

BAND = 60  # pixels: a line of text and its space fit
UPPER = 900  # pixels that every page fills: header and plan


def pixels(data):
    """Width, height, bytes a pixel and the rows of a PNG with 8 bits a channel."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("not a PNG file")
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    step = {2: 3, 6: 4}.get(colour)
    if depth != 8 or step is None:
        raise ValueError(f"a PNG of {depth} bits and colour type {colour}")
    return width, height, step, unfiltered(zlib.decompress(packed), width * step, height, step)


def unfiltered(raw, stride, height, step):
    """Rows without the filters of PNG (section 9 of its specification)."""
    rows, above = [], bytearray(stride)
    for y in range(height):
        kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        if kind:
            for x in range(stride):
                left = row[x - step] if x >= step else 0
                corner = above[x - step] if x >= step else 0
                if kind == 1:
                    guess = left
                elif kind == 2:
                    guess = above[x]
                elif kind == 3:
                    guess = (left + above[x]) // 2
                else:
                    guess = paeth(left, above[x], corner)
                row[x] = (row[x] + guess) & 255
        rows.append(row)
        above = row
    return rows


def paeth(left, above, corner):
    """The neighbour nearest to left + above - corner."""
    guess = left + above - corner
    return min((abs(guess - left), 0, left), (abs(guess - above), 1, above), (abs(guess - corner), 2, corner))[2]


def findings(data, width, height, looks):
    """What is wrong with the screenshot; nothing if all is well."""
    seen_width, seen_height, step, rows = pixels(data)
    if (seen_width, seen_height) != (width, height):
        return [f"{seen_width} by {seen_height} pixels, not {width} by {height}"]
    wrong = []
    ground = sum(rows[2][2 * step : 2 * step + 3]) / 3
    if (looks == "dark") != (ground < 100):
        wrong.append(f"the ground is {ground:.0f} of 255, which is not {looks}")
    for top in range(0, min(UPPER, height) - BAND + 1, BAND):
        band = rows[top : top + BAND : 2]
        colours = {bytes(row[x : x + 3]) for row in band for x in range(0, width * step, step * 2)}
        if len(colours) < 4:
            wrong.append(f"nothing is drawn from line {top} to {top + BAND}")
    return wrong


def main():
    path, width, height, looks = sys.argv[1:]
    with open(path, "rb") as file:
        wrong = findings(file.read(), int(width), int(height), looks)
    for one in wrong:
        print(f"{path}: {one}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
