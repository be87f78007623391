#!/usr/bin/env python3
"""The folder of pages: what is in it, and what Chromium makes of it. The argument, if any, is a folder to
keep axe-core in."""
import glob
import html.parser
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import unittest
import urllib.parse
import zipfile

import browser
import night

AXE, AXE_FOLDER = "axe-playwright-python==0.1.8", None
LONG, SHORT = "12_en_long_90s.mp3", "01_en_short.wav"
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"&amp;</p>"
NAME = "'\"><script>document.title='owned'<\xa7>&%23#?.wav"


class Strict(html.parser.HTMLParser):
    """Elements and their attributes; nothing but what pages have of their own may be there."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)


class Pages(night.Night):
    """One night for all cases; each has the archive and the catalog as they were after it, and pages of
    its own."""

    made = None

    def setUp(self):
        if Pages.made is None:
            super().setUp()
            Pages.made = {"dir": self.dir, "archive": self.archive, "catalog": self.catalog}
            self.make()
            for what in ("archive", "catalog.db"):
                subprocess.run(["cp", "-a", f"{self.dir}/{what}", f"{self.dir}/{what}.kept"], check=True)
        self.__dict__.update(Pages.made, running=[])
        shutil.rmtree(self.archive)
        for name in glob.glob(self.catalog + "-*"):
            os.remove(name)
        for what in ("archive", "catalog.db"):
            subprocess.run(["cp", "-aT", f"{self.dir}/{what}.kept", f"{self.dir}/{what}"], check=True)
        self.long, self.hostile, self.flac = (self.number_of(name) for name in (LONG, NAME, "cinta"))
        self.out = os.path.join(self.dir, "pages")
        shutil.rmtree(self.out, ignore_errors=True)
        self.export()

    def clean(self):
        pass  # tearDownModule does

    def number_of(self, name):
        number, = self.sql("SELECT media_id FROM recordings WHERE instr(path || member, ?)", name)[0]
        return number

    def make(self):
        self.bring(LONG)
        self.bring(SHORT, NAME)
        with zipfile.ZipFile(os.path.join(self.archive, "tapes.zip"), "w") as file:
            file.write(os.path.join(night.SAMPLES, "04_es_clean.flac"), "1990/<b>cinta<|b>.flac")
        self.enqueue("--word-timestamps", "--diarize=diarization-nano", self.archive)
        self.run_to_end()
        self.nightshift("correct", "-q", "--at=0:03.5", LONG, HOSTILE, status=0)
        self.nightshift("correct", "-q", "--at=0:06", LONG, "Ñandú straße ΟΔΟΣ 北京", status=0)
        table = os.path.join(self.dir, "tags.csv")
        with open(table, "w", encoding="utf-8") as file:
            file.write('media_id,topic,"<b onclick=1>"\n%d,"%s",x\n' % (
                self.number_of(LONG), HOSTILE.replace('"', '""')))
        self.nightshift("describe", "-q", table, status=0)

    def export(self, *options, status=0):
        return self.nightshift("export", "-f", "html", "-o", self.out, *options, status=status)

    def read(self, name):
        with open(os.path.join(self.out, name), encoding="utf-8") as file:
            return file.read()

    def page(self, number):
        fingerprint, = self.sql("SELECT lower(hex(substr(fingerprint, 1, 8))) FROM media WHERE media_id = ?", number)[0]
        return f"recordings/{fingerprint}.html"

    def times(self):
        return {name: os.stat(name).st_mtime_ns
                for name in glob.glob(self.out + "/**", recursive=True) if os.path.isfile(name)}

    def changed(self, before):
        after = self.times()
        return {os.path.relpath(n, self.out) for n in set(before) | set(after) if before.get(n) != after.get(n)}


class Folder(Pages):
    def test_names_and_texts_stay_text(self):
        allowed = re.compile(r"(index|list)\.html|recordings/[0-9a-f]{16}\.(html|js)|media/[0-9a-f]{16}\.(svg|opus)|"
                             r"search/([0-9a-f]{16}|list|pieces)\.js|pages/(style\.css|recording\.js|archive\.js|catalog\.txt)")
        for name in self.times():
            self.assertRegex(os.path.relpath(name, self.out), "^(" + allowed.pattern + ")$")
        for name in glob.glob(self.out + "/**/*.html", recursive=True):
            page = Strict(self.read(os.path.relpath(name, self.out)))
            policy = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
            self.assertIn("default-src 'none'; script-src 'self'", policy[0])
            self.assertNotIn("unsafe", policy[0])
            for tag, attributes in page.elements:
                self.assertNotIn(tag, ("b onclick", "iframe", "object", "form action"))
                self.assertFalse([a for a in attributes if a.startswith("on") or a == "style"], (tag, attributes))
                if tag == "script":
                    self.assertRegex(attributes["src"], r"^(\.\./)?(pages|search)/\w+\.js$")
                if tag == "img":
                    self.assertRegex(attributes["src"], r"^\.\./media/[0-9a-f]{16}\.svg$")
        words = "".join(Strict(self.read(self.page(self.long))).words)
        self.assertIn(HOSTILE, words)  # corrected, and as a tag
        self.assertIn("<b onclick=1>", words)
        for name in glob.glob(self.out + "/**/*.js", recursive=True):
            if "/pages/" not in name:
                self.assertNotIn("<", self.read(os.path.relpath(name, self.out)))

    def test_what_changed_alone_is_written(self):
        before = self.times()
        self.assertIn("0 files", self.export().out)
        self.assertEqual(set(), self.changed(before))
        self.nightshift("correct", "-q", "--at=0:11.5", LONG, "Entirely rewritten.", status=0)
        self.export()
        changed = self.changed(before)
        self.assertLessEqual({self.page(self.long), self.page(self.long)[:-4] + "js"}, changed)
        self.assertLessEqual({name.split("/")[0] for name in changed}, {"recordings", "search"})
        self.assertEqual(2, len([n for n in changed if n.startswith("recordings/")]))

    def listed(self):
        return sorted(json.loads(self.read("search/list.js")[len("list("):-len(");\n")]))

    def test_what_is_exported_in_pieces_comes_together(self):
        all_of_it, listed, page = self.times(), self.listed(), self.page(self.long)
        self.nightshift("correct", "-q", "--at=0:11.5", LONG, "Entirely rewritten.", status=0)
        self.export(os.path.join(self.archive, NAME))
        self.assertEqual(set(all_of_it), set(self.times()))
        self.assertEqual(listed, self.listed())
        for name in (page, page[:-4] + "js"):  # as the search has it
            self.assertIn("Entirely", self.read(name))
        for media in ("copy", "none", "link"):  # a page plays what it was made with
            self.export("--media=" + media)
            before = self.times()
            self.export("--media=opus", "--no-waveform", os.path.join(self.archive, "tapes.zip"))
            self.assertLessEqual({n for n in self.changed(before) if n.startswith("recordings/")}, {self.page(self.flac)})
        shutil.rmtree(self.out)
        for name in (NAME, "tapes.zip", LONG):
            self.export(os.path.join(self.archive, name))
        self.assertEqual(listed, self.listed())
        self.assertEqual(3, len(glob.glob(self.out + "/recordings/*.html")))
        self.assertIn('"entirely"', "".join(self.read(f"search/{os.path.basename(n)}") for n in glob.glob(self.out + "/search/*.js")))

    def test_a_transcript_that_goes_takes_its_page_along(self):
        page, note = self.page(self.flac), os.path.join(self.out, "recordings", "mine.txt")
        with open(note, "w", encoding="utf-8") as file:
            file.write("a note")
        zipped = os.path.join(self.archive, "tapes.zip")
        for stage, in self.sql("SELECT DISTINCT stage_id FROM stage ORDER BY stage_id DESC"):
            self.nightshift("forget", "-q", "--yes", f"--stage={stage}", zipped)
        self.export(os.path.join(self.archive, LONG))
        self.assertFalse(os.path.exists(os.path.join(self.out, page)))
        self.assertFalse(glob.glob(self.out + "/media/" + page[11:27] + "*"))
        self.assertTrue(os.path.exists(note))
        self.assertEqual(2, len(glob.glob(self.out + "/recordings/*.html")))

    def test_what_is_damaged_is_not_plainly_done(self):
        with sqlite3.connect(self.catalog) as connection:
            connection.execute("UPDATE media SET damage = 'it ends early' WHERE media_id = ?", (self.long,))
        connection.close()
        self.export()
        self.assertEqual([["damaged", "it ends early"]], [[r[6], r[8]] for r in self.listed() if r[1].endswith(LONG)])
        self.assertEqual({"done", "damaged"}, {r[6] for r in self.listed()})
        self.assertEqual(1, Strict(self.read("list.html")).words.count("damaged"))

    def test_why_something_is_doubted(self):
        with sqlite3.connect(self.catalog) as connection:
            connection.execute("UPDATE segment SET reason = 'loop; odd words' WHERE segment_id = (SELECT min(segment_id) "
                               "FROM transcript WHERE media_id = ?)", (self.long,))
        connection.close()
        self.export()
        self.assertIn("In doubt: The same few words come again and again. Half of its words,",
                      "".join(Strict(self.read(self.page(self.long))).words))

    def test_a_length_that_nobody_knows_is_not_none(self):
        with sqlite3.connect(self.catalog) as connection:
            connection.execute("UPDATE task SET state = 'cancelled' WHERE media_id = ?", (self.long,))
            connection.execute("UPDATE media SET duration_ms = NULL WHERE media_id = ?", (self.long,))
        connection.close()
        self.export()
        words = [word for word in Strict(self.read("index.html")).words if word.strip()]
        self.assertEqual("unknown", words[words.index("cancelled") + 1])

    def sources(self, number):
        page = Strict(self.read(self.page(number)))
        return [a["src"] for tag, a in page.elements if tag == "source"]

    def test_sound_is_found(self):
        flac, plain = self.flac, self.hostile
        self.assertEqual(["../media/" + self.page(flac)[11:27] + ".opus"], self.sources(flac))
        relative, absolute = self.sources(plain)
        self.assertTrue(os.path.samefile(os.path.join(self.archive, NAME), os.path.join(
            self.out, "recordings", urllib.parse.unquote(relative))))
        self.assertEqual("file://" + os.path.join(self.archive, NAME), urllib.parse.unquote(absolute))
        self.export("--media=copy")
        copy, = self.sources(plain)
        with open(os.path.join(self.out, "recordings", copy), "rb") as one, \
                open(os.path.join(self.archive, NAME), "rb") as other:
            self.assertEqual(one.read(), other.read())
        self.export("--media=opus")
        self.assertTrue(self.sources(plain)[0].endswith(".opus"))
        if shutil.which("ffprobe"):
            said = subprocess.run(["ffprobe", "-v", "error", "-show_entries", "stream=codec_name:format=duration", "-of",
                                   "csv=p=0", os.path.join(self.out, "recordings", self.sources(plain)[0])],
                                  capture_output=True, text=True, check=True).stdout.split()
            self.assertEqual("opus", said[0])
            length, = self.sql("SELECT duration_ms FROM media WHERE media_id = ?", plain)[0]
            self.assertAlmostEqual(length / 1000, float(said[1]), delta=0.1)
        self.export("--media=none")
        self.assertEqual([], self.sources(plain))

    def test_a_lost_waveform_leaves_the_sound(self):
        shutil.rmtree(self.out)
        with open(os.path.join(self.archive, NAME), "wb") as file:
            file.write(b"no sound")
        self.assertIn("no waveform", self.export("--media=link").err)
        self.assertEqual(2, len(self.sources(self.hostile)))
        self.assertNotIn("could not be read", self.read(self.page(self.hostile)))
        # Other bytes than were transcribed are not copied.
        self.assertIn("not the file any more that was transcribed", self.export("--media=copy").err)
        self.assertEqual([], self.sources(self.hostile))
        self.assertIn("could not be read", self.read(self.page(self.hostile)))
        self.assertEqual([], glob.glob(self.out + "/media/" + self.page(self.hostile)[11:27] + ".wav"))

    def test_pages_in_the_archive_are_no_recordings(self):
        """As docs/how-to/make-pages.md has it: what a page plays is not transcribed the next evening."""
        self.out = os.path.join(self.archive, "pages")
        self.export("--media=opus")
        self.assertEqual(3, len(glob.glob(self.out + "/media/*.opus")))
        known = self.sql("SELECT count(*) FROM place")
        self.assertIn("3 recordings found: 3 known", " ".join(self.enqueue().out.split()))
        self.assertEqual(known, self.sql("SELECT count(*) FROM place"))
        shutil.copy(glob.glob(self.out + "/media/*.opus")[0], self.out + "/media/mine.opus")
        self.assertIn("1 new", self.enqueue().out)

    def test_pages_of_others_stay(self):
        shutil.rmtree(self.out)
        os.makedirs(self.out)
        with open(self.out + "/index.html", "w", encoding="utf-8") as file:
            file.write("mine")
        self.assertIn("has pages that no export wrote", self.export(status=77).err)
        self.assertEqual("mine", self.read("index.html"))

    def test_a_folder_is_one_catalogs(self):
        before, mine = self.times(), self.catalog
        self.catalog = os.path.join(self.dir, "other.db")
        self.enqueue(os.path.join(self.archive, NAME))
        self.assertIn("has the pages of another catalog", self.export(status=77).err)
        self.catalog = mine
        self.assertEqual(set(), self.changed(before))

    def test_a_page_that_cannot_be_made_is_not_kept(self):
        page = self.page(self.long)
        os.remove(os.path.join(self.out, page[:-4] + "js"))
        os.mkdir(os.path.join(self.out, page[:-4] + "js"))
        self.nightshift("correct", "-q", "--at=0:11.5", LONG, "Entirely rewritten.", status=0)
        old = self.read(page)
        self.assertIn("is there and is a folder", self.export(status=73).err)
        for _ in range(2):
            self.assertEqual(old, self.read(page))
            self.assertEqual([""], [r[0] for r in self.listed() if r[1].endswith(LONG)])
            self.assertNotIn('"entirely"', "".join(self.read(n) for n in glob.glob(self.out + "/search/*.js")))
            self.assertIn("its page is the old one", self.export(os.path.join(self.archive, NAME)).err)
        os.rmdir(os.path.join(self.out, page[:-4] + "js"))
        self.export(os.path.join(self.archive, NAME))
        self.assertIn("Entirely", self.read(page))
        self.assertIn('"entirely"', "".join(self.read(n) for n in glob.glob(self.out + "/search/*.js")))

    def test_what_is_not_there_is_said(self):
        shutil.rmtree(self.out)
        os.remove(os.path.join(self.archive, "tapes.zip"))
        self.assertIn("no sound or waveform", self.export().err)
        self.assertIn("could not be read", self.read(self.page(self.flac)))
        shutil.rmtree(self.out)
        self.export("--no-waveform", "--media=none")
        self.assertFalse(os.path.exists(self.out + "/media"))
        self.one_sentence(self.export("--media=tape", status=64), "link, copy, opus or none")
        self.one_sentence(self.nightshift("export", "--media=copy", status=64), "--format=html")


@unittest.skipIf(browser.MISSING, "chromium and chromium-driver are not installed")
class InBrowser(Pages):
    shared = None  # to start one takes longer than most cases

    def setUp(self):
        super().setUp()
        if InBrowser.shared is None:
            InBrowser.shared = browser.Browser(os.path.join(self.dir, "browser"))
        self.browser = InBrowser.shared
        self.browser.cdp("Emulation.setScriptExecutionDisabled", value=False)
        self.browser.size(1280)
        self.browser.media()
        self.browser.messages()

    def open(self, name, address=""):
        self.browser.open(os.path.join(self.out, name) + address)

    def quiet(self):
        self.assertEqual([], self.browser.messages())
        self.assertNotEqual("owned", self.browser.js("return document.title"))

    def test_index(self):
        b = self.browser
        self.open("index.html")
        b.wait_js("return document.querySelectorAll('#rows tbody tr').length === 3")
        names = "return [...document.querySelectorAll('#rows tbody th a')].map((a) => a.textContent)"
        self.assertEqual({LONG, NAME, "<b>cinta<|b>.flac"}, set(b.js(names)))
        b.click("#rows thead th:nth-child(3) button")  # by length
        self.assertEqual(LONG, b.js(names)[-1])
        b.click("#rows thead th:nth-child(3) button")
        self.assertEqual(LONG, b.js(names)[0])
        b.type("#part", "CINTA")
        self.assertEqual(["<b>cinta<|b>.flac"], b.js(names))
        b.js("document.getElementById('part').value = ''")
        b.type("#part", "1990")  # where it lies, also in its archive
        self.assertEqual(["<b>cinta<|b>.flac"], b.js(names))
        self.assertIn("tapes.zip//1990", b.js("return document.querySelector('#rows tbody th').textContent"))
        self.quiet()

    def search(self, words):
        self.browser.js("const q = document.getElementById('words'); q.value = arguments[0];"
                        "document.getElementById('found').textContent = ''; q.dispatchEvent(new Event('input'))", words)
        self.browser.wait_js("return document.getElementById('found').textContent")
        return self.browser.js("return [...document.querySelectorAll('#hits p')].map((p) => p.textContent)")

    def test_search(self):
        b = self.browser
        self.open("index.html")
        b.wait_js("return !document.getElementById('search').hidden")
        self.assertTrue(self.search("oran"))  # half typed
        self.assertTrue(all("orang" in hit for hit in self.search("orange ")))
        for words in ("nandu", "ÑANDÚ", "STRASSE"[:4], "οδος", "京", "北京"):
            self.assertIn("Ñandú straße", " ".join(self.search(words)), words)
        self.assertEqual([], self.search("xylophon"))
        # A beginning of more words than are loaded at once: what is counted is not all.
        said = "return document.getElementById('found').textContent"
        self.search("oran")
        self.assertRegex(b.js(said), r"^\d+ recording")
        b.js("window.all = table; table = [['a', all[0][1]], ...Array(50).fill(['orana', all[0][1]])]")
        self.search("oran")
        self.assertRegex(b.js(said), r"^At least \d+ recording|^Too many words begin so")
        b.js("table = [['a', all[0][1]], ...Array(50).fill(['zzzz', all[0][1]])]")
        self.search("zzz")
        self.assertEqual("Too many words begin so: type on.", b.js(said))
        b.js("table = all")
        hit = self.search("onerror")
        self.assertIn(HOSTILE, hit[0])
        self.search("puente")
        self.assertIn("tapes.zip//1990", b.js("return document.getElementById('hits').textContent"))
        self.search("onerror")
        b.click("#hits p a")
        b.wait_js("return document.getElementById('player')?.currentTime > 2.5")
        self.quiet()

    def test_a_word_is_played(self):
        b = self.browser
        self.open(self.page(self.long), "#t=20")
        b.wait_js("return Math.abs(document.getElementById('player').currentTime - 20) < 0.1")
        b.js("window.w = words.find((w) => w.from > 10000); w.span.id = 'wanted'")
        # It is marked for as long as it is heard, which may be over before anybody looks.
        b.js("new MutationObserver(() => { window.marked ||= w.span.classList.contains('now') && "
             "w.span.closest('li').classList.contains('at'); }).observe(w.span, {attributes: true})")
        b.click("#wanted")
        b.wait_js("return window.marked")
        self.assertGreater(b.js("return document.getElementById('player').currentTime"), 10)
        b.js("document.getElementById('player').pause(); document.activeElement.blur()")
        b.keys("n")
        b.wait_js("return document.activeElement.closest('li')?.classList.contains('doubt')")
        self.quiet()
        for number in (self.hostile, self.flac):  # a hostile name; Opus
            self.open(self.page(number))
            b.wait_js("return document.getElementById('player').duration > 3")
        self.quiet()

    def test_corrections_come_back(self):
        b = self.browser
        self.open(self.page(self.long))
        before = [row[0] for row in self.sql("SELECT text FROM transcript WHERE media_id = ? ORDER BY start_ms", self.long)]
        b.js("[...document.querySelectorAll('.tools button')].find((x) => x.textContent === 'Correct').click()")
        b.click("#s4 p")
        b.js("getSelection().selectAllChildren(document.querySelector('#s4 p'))")
        b.type("#s4 p", "She closed the <i>oranges</i>. ")
        b.wait_js("return document.querySelector('#s4').classList.contains('changed')")
        b.js("[...document.querySelectorAll('.tools button')].find((x) => x.textContent.startsWith('Save')).click()")
        path = os.path.join(b.downloads, "12_en_long_90s.corrected.json")
        self.wait_for("the file", lambda: os.path.exists(path))
        self.quiet()
        with open(path, encoding="utf-8") as file:
            saved = json.load(file)
        self.assertEqual((self.long, [before[3]]), (saved["recording"], [s["was"] for s in saved["segments"]]))
        self.nightshift("correct", "-q", "--at=0:13.12", LONG, "Of somebody else.", status=0)  # stays
        before[5] = "Of somebody else."
        self.assertIn("1 segment corrected.", self.nightshift("correct", str(self.long), path, status=0).out)
        after = [row[0] for row in self.sql("SELECT text FROM transcript WHERE media_id = ? ORDER BY start_ms", self.long)]
        text = b.js("return textOf(document.querySelector('#s4'))")
        self.assertIn("<i>oranges</i>", text)
        self.assertEqual(before[:3] + [text] + before[4:], after)

    def test_without_scripts(self):
        b = self.browser
        b.cdp("Emulation.setScriptExecutionDisabled", value=True)
        self.open(self.page(self.long))
        b.call("POST", "/element", {"using": "css selector", "value": "audio[controls]"})
        self.assertEqual([], b.messages())
        self.open("list.html")
        self.assertIn("/tapes.zip//1990/<b>cinta", b.js("return document.querySelector('tbody').textContent"))
        b.click("tbody a")

    def each_view(self, views=(False, True)):
        for name in ("index.html", "list.html", self.page(self.long)):
            for dark in views:
                self.browser.media(dark=dark)
                self.open(name)
                self.browser.wait_js("return document.readyState === 'complete'")
                yield name, dark

    def test_it_fits(self):
        for name, _ in self.each_view((False,)):
            for width in (1280, 768, 360, 320):
                self.browser.size(width)
                self.assertLessEqual(self.browser.js("return document.documentElement.scrollWidth"), width, (name, width))

    def test_a_screen_reader_has_all_of_it(self):
        """What is below the screen, too."""
        b = self.browser
        b.size(320, 400)
        self.open(self.page(self.long))
        b.cdp("Accessibility.enable")
        self.addCleanup(b.cdp, "Accessibility.disable")
        nodes = b.cdp("Accessibility.getFullAXTree")["nodes"]
        read = "".join(n["name"]["value"] for n in nodes if n["role"]["value"] == "StaticText")
        texts = b.js("return [...document.querySelectorAll('.text p')].map((p) => p.textContent)")
        self.assertGreater(len(texts), 20)
        squeezed = ["".join(text.split()) for text in [read, *texts]]
        self.assertEqual([], [text for text in squeezed[1:] if text not in squeezed[0]])

    def test_contrast(self):
        """WCAG 2.2: text has 4.5 to 1 against what is behind it, what is drawn 3 to 1."""
        for name, dark in self.each_view():
            poor = self.browser.js("""
                const rgb = (c) => c.match(/[\\d.]+/g).map(Number);
                const light = (c) => rgb(c).slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
                  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
                const ratio = (a, b) => { a = light(a); b = light(b); return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
                const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
                  if (rgb(c)[3] !== 0) return c; } return 'rgb(255, 255, 255)'; };
                for (const name of ['now', 'u1', 'u2'])
                  document.querySelectorAll('.text p span')[['now', 'u1', 'u2'].indexOf(name)]?.classList.add(name);
                const poor = [];
                for (const e of document.querySelectorAll('body *')) {
                  const style = getComputedStyle(e), drawn = e.closest('svg') && e.tagName !== 'text';
                  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
                  if (['g', 'svg', 'BR'].includes(e.tagName) || (!own && !drawn) || !e.getClientRects().length) continue;
                  const colour = e.closest('svg') ? style.fill : style.color, found = ratio(colour, ground(e));
                  if (found < (drawn ? 3 : 4.5)) poor.push([e.tagName, String(e.className), found]);
                }
                return poor;""")
            self.assertEqual([], poor, (name, dark))

    def test_axe(self):
        folder = AXE_FOLDER or os.path.join(self.dir, "axe")
        path = os.path.join(folder, "axe_playwright_python", "axe.min.js")
        if not os.path.exists(path):
            subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps",
                            "--target", folder, AXE], capture_output=True, check=False, timeout=240)
        if not os.path.exists(path):
            self.skipTest("pip cannot fetch " + AXE)
        with open(path, encoding="utf-8") as file:
            axe = file.read()
        for name, _ in self.each_view((False,)):  # colours are test_contrast's
            self.browser.js(axe + "; window.said = null; axe.run().then((r) => { window.said = r.violations.map((v) =>"
                            "v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html).join(' | ')); }, (e) => { window.said = [String(e)]; })")
            self.browser.wait_js("return window.said !== null")
            self.assertEqual([], self.browser.js("return window.said"), name)


def tearDownModule():
    if InBrowser.shared:
        InBrowser.shared.close()
    if Pages.made:
        shutil.rmtree(Pages.made["dir"], ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("/"):
        AXE_FOLDER = sys.argv.pop(1)
    night.main()
