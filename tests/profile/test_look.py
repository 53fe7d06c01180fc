"""The screenshot check itself: it must be able to fail."""

import struct
import unittest
import zlib

from look import findings


def png(rows, filter_kind=0):
    """A PNG of RGB rows, each a list of (r, g, b); filter 0 or 1."""

    def chunk(kind, body):
        return struct.pack(">I4s", len(body), kind) + body + struct.pack(">I", zlib.crc32(kind + body))

    raw = b""
    for row in rows:
        flat = bytes(value for pixel in row for value in pixel)
        if filter_kind == 1:
            flat = bytes((flat[x] - (flat[x - 3] if x >= 3 else 0)) & 255 for x in range(len(flat)))
        raw += bytes([filter_kind]) + flat
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def page(ground, ink=True, height=120):
    """A page with a line of text of sorts in each band."""
    rows = [[(ground,) * 3 for _ in range(40)] for _ in range(height)]
    if ink:
        for y in range(10, height, 20):
            rows[y] = [((x * 16) % 256, 90, 40) if 4 < x < 36 else (ground,) * 3 for x in range(40)]
    return rows


class Look(unittest.TestCase):
    def test_a_page_that_is_drawn_is_fine(self):
        for kind in (0, 1):
            self.assertEqual(findings(png(page(250), kind), 40, 120, "light"), [])
            self.assertEqual(findings(png(page(20), kind), 40, 120, "dark"), [])

    def test_an_empty_page_is_found(self):
        self.assertIn("nothing is drawn", findings(png(page(250, ink=False)), 40, 120, "light")[0])

    def test_the_wrong_looks_and_the_wrong_size_are_found(self):
        self.assertIn("not dark", findings(png(page(250)), 40, 120, "dark")[0])
        self.assertIn("not 41 by 120", findings(png(page(250)), 41, 120, "light")[0])

    def test_what_is_no_screenshot_is_refused(self):
        with self.assertRaises(ValueError):
            findings(b"GIF89a", 1, 1, "light")


if __name__ == "__main__":
    unittest.main()
