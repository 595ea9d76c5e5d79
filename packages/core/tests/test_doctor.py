"""What `mainstem doctor` finds, on machines that lack something each, and what it says to do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.metadata import Distribution, PackageNotFoundError, requires
from pathlib import Path
from types import SimpleNamespace

import pytest
from mainstem import Dataset
from mainstem.cli import doctor as doctor_module
from mainstem.cli import machine
from mainstem.cli.doctor import check_folder, check_jars, check_places, doctor, examine
from mainstem.cli.machine import Check, check_clock, check_pandas, check_python
from mainstem.errors import MachineError
from mainstem.run import class_archive
from packaging.requirements import Requirement

SECRET = "hunter2-swordfish"
PLUGIN = """\
from mainstem import Events, Needs, Options, Source, hookimpl, option

class FakeOptions(Options):
    jar: str = option("", description="A jar.")
    package: str = option("", description="A coordinate.")

class Fake(Source):
    options: FakeOptions

    def shape(self):
        return Events("n BIGINT", identity=["n"])

    def load(self, ctx):
        raise NotImplementedError

    def needs(self):
        given = self.options
        return Needs(
            packages=(given.package,) if given.package else (), jars=(given.jar,) if given.jar else ()
        )

@hookimpl
def mainstem_sources():
    return {"fake": Fake}
"""
DOCUMENT = """\
pipeline: test
sources: {rows: {use: USE}}
sinks: {out: {use: console, from: rows}}
"""


class Machine:
    """A machine whose PATH, home and site folder are ours."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.home, self.site = folder / "bin", folder / "home", folder / "site"
        self.file = folder / "documents" / "pipeline.yaml"
        for made in (self.bin, self.home, self.site, self.file.parent):
            made.mkdir()

    def java(
        self, version: str = "17.0.2", modules: str = "java.base jdk.incubator.vector"
    ) -> None:
        """Put a `java` on PATH that says this of itself."""
        script = self.bin / "java"
        script.write_text(
            "#!/bin/sh\n"
            f"if [ $1 = -version ]; then echo 'openjdk version \"{version}\"' >&2\n"
            f"else echo '{modules}'; fi\n"
        )
        script.chmod(0o755)

    def install(
        self, name: str, version: str, code: str = "", requires: str = "", words: str = ""
    ) -> None:
        """Install a distribution by hand; with code, a plugin with source words."""
        info = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (info / "METADATA").write_text(text + (f"Requires-Dist: {requires}\n" if requires else ""))
        if code:
            module = name.replace("-", "_")
            (self.site / f"{module}.py").write_text(code)
            lines = "".join(f"{word} = {module}\n" for word in words.split())
            (info / "entry_points.txt").write_text(f"[mainstem.sources]\n{lines}")

    def document(self, text: str, use: str = "rate") -> Path:
        """Write a document."""
        self.file.write_text(text.replace("USE", use))
        return self.file


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A machine that lacks nothing."""
    made = Machine(tmp_path)
    made.java()
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.setenv("HOME", str(made.home))
    for name in ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(str(made.site))
    before = set(sys.modules)
    yield made
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(made.site)):
            del sys.modules[name]


def found(checks: list[Check], name: str) -> Check:
    """Return the one check of that name."""
    (check,) = [check for check in checks if check.name == name]
    return check


def test_a_machine_that_lacks_nothing_is_told_so(fake):
    """Pass: no check is missing or lacks its fact, exit code 0, with and without a document."""
    for file in (None, fake.document(DOCUMENT)):
        checks = examine(file)
        assert [c for c in checks if c.state == "missing" or not c.found] == []
        assert found(checks, "Java").found == f"17.0.2 ({fake.bin}/java)"
        assert found(checks, "pyspark").state == "ok"
        assert "cores" in found(checks, "cores and memory").found
        text, code = doctor(file)
        assert code == 0
        assert text.endswith("Nothing is in the way of a run.\n")


def test_an_archive_of_classes_is_found_unless_others_could_have_written_it(fake, monkeypatch):
    """Pass: what Java would be told, and nothing where there is no archive, no Java, or one that others may write."""
    for name in (
        "XDG_CACHE_HOME",
        "JDK_JAVA_OPTIONS",
        "JAVA_TOOL_OPTIONS",
        "MAINSTEM_CLASS_ARCHIVES",
    ):
        monkeypatch.delenv(name, raising=False)
    assert class_archive.options() == ""
    assert found(examine(None), "Java's start").found.startswith("without")
    archive = class_archive.place()
    assert archive.parent == fake.home / ".cache" / "mainstem" / "java"
    archive.parent.mkdir(parents=True, mode=0o755)
    archive.write_bytes(b"classes")
    class_archive.about(archive).write_text('{"bytes": 7}')
    archive.chmod(0o644)
    assert class_archive.options().startswith(f'"-XX:SharedArchiveFile={archive}"')
    assert found(examine(None), "Java's start").found.startswith("from an archive")
    archive.chmod(0o664)
    assert class_archive.options() == ""
    archive.chmod(0o644)
    for about in (
        '{"bytes": 8}',
        "{",
        "{}",
        "[]",
    ):  # one that is cut off, and some of which nobody knows
        class_archive.about(archive).write_text(about)
        assert class_archive.options() == ""
    class_archive.about(archive).write_text('{"bytes": 7}')
    archive.parent.chmod(0o777)
    assert class_archive.options() == ""
    archive.parent.chmod(0o755)
    (fake.home / "moved").symlink_to(archive.parent)
    monkeypatch.setenv("MAINSTEM_CLASS_ARCHIVES", str(fake.home / "moved"))
    assert class_archive.options() == ""
    monkeypatch.setenv("MAINSTEM_CLASS_ARCHIVES", str(archive.parent))
    assert class_archive.options() != ""
    assert class_archive.options("-Xshare:off") == ""  # the user has said otherwise
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:SharedArchiveFile=theirs.jsa")
    assert class_archive.options() == ""
    assert class_archive.usable(archive)  # so none is made in its place
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    odd = fake.home / "a:b"
    archive.parent.rename(odd)
    monkeypatch.setenv("MAINSTEM_CLASS_ARCHIVES", str(odd))
    assert class_archive.options() == ""  # Java would take it for two
    from mainstem.run.archiving import make

    with pytest.raises(MachineError, match="its name has a colon"):
        make()
    odd.rename(archive.parent)
    monkeypatch.delenv("MAINSTEM_CLASS_ARCHIVES")
    monkeypatch.setenv("JAVA_HOME", str(fake.home))
    assert class_archive.options() == ""  # there is no Java
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("SPARK_HOME", str(fake.home))
    assert class_archive.options() == ""  # of another Spark
    monkeypatch.delenv("SPARK_HOME")
    os.utime(fake.bin / "java", (1, 1))
    assert class_archive.options() == ""  # of another Java


@pytest.mark.parametrize(
    ("version", "modules", "name", "words"),
    [
        ("11.0.20", "jdk.incubator.vector", "Java", "is Java 11, too old for Spark"),
        ("1.8.0_292", "", "Java", "too old"),
        ("21.0.1", "java.base", "Java modules", "no module jdk.incubator.vector"),
    ],
)
def test_a_java_that_spark_does_not_start_on_fails_with_the_package_to_install(
    fake, version, modules, name, words
):
    """Pass: exit code 4, the cause, and an apt-get line."""
    fake.java(version, modules)
    check = found(examine(), name)
    assert check.state == "missing"
    assert words in check.found
    assert "apt-get install openjdk-17-jre-headless" in check.next_step
    text, code = doctor()
    assert code == 4
    assert f"{name}: {check.next_step}\n" in text
    assert text.endswith("A run would fail.\n")


@pytest.mark.parametrize("home", ["", "nowhere"])
def test_no_java_is_found_where_the_runner_looks_for_it(fake, monkeypatch, home):
    """Pass: missing without one on PATH, and with one when JAVA_HOME leads elsewhere."""
    if home:
        monkeypatch.setenv("JAVA_HOME", home)
    else:
        (fake.bin / "java").unlink()
    check = found(examine(), "Java")
    assert check.state == "missing"
    assert (f"JAVA_HOME={home}" if home else "PATH has none") in check.found


@pytest.mark.parametrize(
    ("version", "state"),
    [((3, 10, 9), "missing"), ((3, 11, 0), "ok"), ((3, 13, 9), "ok"), ((3, 14, 0), "warning")],
)
def test_pythons_are_those_that_are_tested(fake, version, state):
    """Pass: older ones fail, newer ones are a warning; both name one to install."""
    check = check_python(version)
    assert check.state == state
    assert ("uv python install 3.13" in check.next_step) == (state != "ok")


def test_another_python_or_spark_by_environment_is_a_warning(fake, monkeypatch):
    """Pass: the variable is named, and how to be rid of it."""
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python3")
    monkeypatch.setenv("SPARK_HOME", "/nowhere/spark")
    checks = examine()
    for name, variable in (("Python", "PYSPARK_PYTHON"), ("pyspark", "SPARK_HOME")):
        check = found(checks, name)
        assert (check.state, check.next_step) == ("warning", f"unset {variable}")
        assert f"{variable}=/nowhere" in check.found


def test_a_document_is_examined_where_no_package_says_which_pyspark_there_is(fake, monkeypatch):
    """Pass: a warning with where it lies, as of a folder of Spark's on the path; the rest is checked."""
    there = Distribution.from_name

    def without(name: str) -> Distribution:
        if name == "pyspark":
            raise PackageNotFoundError(name)
        return there(name)

    monkeypatch.setattr(Distribution, "from_name", without)
    checks = examine(fake.document(DOCUMENT))
    assert (found(checks, "pyspark").state, found(checks, "Java").state) == ("warning", "ok")
    assert "of unknown version" in found(checks, "pyspark").found
    assert [check.name for check in checks if check.state == "missing"] == []


@pytest.mark.parametrize(
    ("name", "of", "version", "state"),
    [
        ("pyspark", "mainstem", "4.1.1", "missing"),
        ("pyarrow", "mainstem", "9.0.0", "missing"),
        ("pandas", "mainstem", "3.0.1", "warning"),
        ("pandas", "mainstem", "1.5.3", "warning"),
        ("py4j", "pyspark", "0.10.8", "missing"),
    ],
)
def test_a_library_of_the_wrong_version_is_told_with_its_pip_line(fake, name, of, version, state):
    """Pass: judged by what mainstem and pyspark declare themselves."""
    fake.install(name, version)
    check = found(examine(), name)
    (wanted,) = [
        declared
        for declared in map(Requirement, requires(of) or [])
        if declared.name == name and declared.marker is None
    ]
    assert wanted.specifier
    assert not wanted.specifier.contains(version)
    step = f"pip install '{name}{wanted.specifier}'"
    assert (check.state, check.next_step) == (state, step)
    assert version in check.found
    assert doctor()[1] == (4 if state == "missing" else 0)


def test_a_library_that_is_not_installed_fails_only_if_spark_needs_it(fake, monkeypatch):
    """Pass: pyarrow and pyspark are missing; pandas is a warning until pyspark itself asks for it."""

    def absent(name):
        raise PackageNotFoundError(name)

    with monkeypatch.context() as patch:
        patch.setattr(machine, "version", absent)
        patch.setattr(machine, "find_spec", lambda name: None)
        checks = examine()
    assert {c.name for c in checks if c.found == "not installed"} == {"pyspark", "py4j", "pyarrow"}
    assert found(checks, "pyspark").state == "missing"
    assert found(checks, "pandas").state == "warning"
    assert "pandas" in found(checks, "pandas").next_step
    fake.install("pyspark", "5.0.0", requires="pandas>=2")
    fake.install("pandas", "3.0.0")
    assert check_pandas().state == "missing"


def test_a_clock_behind_the_files_is_a_warning(tmp_path):
    """Pass: the file from the future is named; files of now and of before are right."""
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "commit"
    file.touch()
    assert check_clock([tmp_path, tmp_path / "absent"]).state == "ok"
    ahead = time.time() + 3600
    os.utime(file, (ahead, ahead))
    check = check_clock([tmp_path])
    assert check.state == "warning"
    assert f"{file} was written 60 minutes from now" in check.found
    assert "timedatectl" in check.next_step


def test_the_checkpoint_is_looked_for_where_a_run_puts_it_and_is_not_made(fake):
    """Pass: relative to the document, with file system and free space; the folder stays absent."""
    folder = fake.file.parent / "checkpoints" / "test"
    check = found(examine(fake.document(DOCUMENT)), "checkpoint")
    assert check.found.startswith(f"{folder} (")
    assert "GiB free" in check.found
    assert not folder.parent.exists()
    folder.mkdir(parents=True)
    commit = folder / "commit"
    commit.touch()
    os.utime(commit, (time.time() + 7200, time.time() + 7200))
    assert str(commit) in found(examine(fake.file), "clock").found


@pytest.mark.parametrize(
    ("checkpoint", "words"),
    [("/proc/nowhere", "can't write into /proc"), ("pipeline.yaml", "is a file")],
)
def test_a_checkpoint_that_can_not_be_written_fails(fake, checkpoint, words):
    """Pass: exit code 4, and the way on is told."""
    file = fake.document(DOCUMENT + f"checkpoint: {checkpoint}\n")
    check = found(examine(file), "checkpoint")
    assert check.state == "missing"
    assert words in check.found
    assert "another folder under `checkpoint:`" in check.next_step
    assert doctor(file)[1] == 4


def test_a_checkpoint_that_does_not_last_or_has_little_space_is_a_warning(tmp_path, monkeypatch):
    """Pass: a file system in memory, and less than a GiB free."""
    monkeypatch.setattr(doctor_module, "_file_system", lambda folder: "tmpfs")
    check = check_folder("checkpoint", tmp_path)
    assert (check.state, "empties it" in check.found) == ("warning", True)
    monkeypatch.setattr(doctor_module, "_file_system", lambda folder: "ext4")
    for free, state in ((2**30 - 1, "warning"), (2**30, "ok")):
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr("shutil.disk_usage", lambda folder, usage=usage: usage)
        assert check_folder("checkpoint", tmp_path).state == state


@pytest.mark.in_turn
def test_plugins_that_do_not_work_are_warnings_until_a_document_names_them(fake):
    """Pass: each told with its next step and exit 0; not even imported for a document without it."""
    fake.install("mainstem-broken", "1.0", "import nosuchmodule", words="broken")
    fake.install("mainstem-old", "1.0", PLUGIN, requires="mainstem>=99", words="fake")
    checks = examine()
    broken, old = found(checks, "plugin mainstem-broken"), found(checks, "plugin mainstem-old")
    assert (broken.state, old.state) == ("warning", "warning")
    assert "No module named 'nosuchmodule'" in broken.found
    assert broken.next_step == "Reinstall it: pip install --force-reinstall mainstem-broken"
    assert "made for mainstem>=99" in old.found
    assert old.next_step == "Upgrade both: pip install --upgrade mainstem mainstem-old"
    assert doctor()[1] == 0
    checks = examine(fake.document(DOCUMENT))
    assert [c.name for c in checks if c.name.startswith("plugin ")] == ["plugin mainstem-old"]
    assert found(checks, "plugins").found.startswith("mainstem ")
    file = fake.document(DOCUMENT, use="broken")
    assert "nosuchmodule" in found(examine(file), "document").found
    assert doctor(file)[1] == 3


def test_two_distributions_with_one_word_are_a_warning_that_names_the_way_out(fake):
    """Pass: both names; a document that writes one of them runs, one that does not fails with 3."""
    fake.install("one-fake", "1.0", PLUGIN, words="fake")
    fake.install("two-fake", "1.0", PLUGIN, words="fake")
    check = found(examine(), "source fake")
    assert (check.state, check.found) == ("warning", "brought by one-fake and two-fake")
    assert check.next_step == "Write `use: one-fake:fake` or `use: two-fake:fake`."
    assert doctor(fake.document(DOCUMENT, use="one-fake:fake"))[1] == 0
    assert doctor(fake.document(DOCUMENT, use="fake"))[1] == 3


def test_jars_are_there_or_missing_and_packages_in_a_cache_or_to_be_downloaded(fake):
    """Pass: a jar that is absent fails; a coordinate is found in the cache, or announced."""
    fake.install("mainstem-fake", "1.0", PLUGIN, words="fake")
    jar = fake.home / "driver.jar"
    text = DOCUMENT.replace(
        "USE", f"fake, with: {{jar: '{jar}', package: 'org.example:driver_2.13:1.2'}}"
    )
    checks = {c.found: c for c in examine(fake.document(text)) if c.name == "jar"}
    assert {found: c.state for found, c in checks.items()} == {
        f"{jar} does not exist": "missing",
        "org.example:driver_2.13:1.2 will be downloaded at the first run": "info",
    }
    assert doctor(fake.file)[1] == 4
    cached = fake.home / ".ivy2.5.2" / "jars" / "org.example_driver_2.13-1.2.jar"
    cached.parent.mkdir(parents=True)
    jar.touch()
    cached.touch()
    jars = [c for c in examine(fake.file) if c.name == "jar"]
    assert [(c.state, c.found) for c in jars] == [
        ("ok", str(jar)),
        ("ok", f"org.example:driver_2.13:1.2 ({cached})"),
    ]
    assert doctor(fake.file)[1] == 0


def test_jars_of_the_document_itself_count_too(fake, tmp_path):
    """Pass: URLs, wrong coordinates and a resolver's folder given by a setting."""
    cached = tmp_path / "cache" / "org.example" / "a" / "jars" / "a-1.jar"
    cached.parent.mkdir(parents=True)
    cached.touch()
    checks = check_jars(
        {
            "spark.jars": "hdfs://host/x.jar, file:///nowhere.jar",
            "spark.jars.packages": "org.example:a:1,org.example:b",
            "spark.jars.ivy": str(tmp_path),
        }
    )
    assert [c.state for c in checks] == ["info", "missing", "ok", "missing"]
    assert "group:artifact:version" in checks[-1].next_step


def test_errors_of_a_document_are_one_check_and_keep_their_exit_code(fake):
    """Pass: all of them in one check, also on a machine without Java; the rest is still told."""
    (fake.bin / "java").unlink()
    file = fake.document(DOCUMENT + "pipelin: x\ntrigger: {evry: 1 second}\n")
    check = found(examine(file), "document")
    assert check.state == "missing"
    assert "Did you mean 'pipeline'?" in check.found
    assert "Did you mean 'every'?" in check.found
    assert f"mainstem validate {file}" in check.next_step
    text, code = doctor(file)
    assert code == 2
    assert "apt-get install" in text
    assert doctor(file.with_name("nowhere.yaml"))[1] == 2


@pytest.mark.parametrize("columns", ["60", "300"])
@pytest.mark.parametrize(
    "more",
    [
        "checkpoint: '/proc/{S}'",
        "checkpoint: '/nowhere/{S}/x'",
        "spark: {{conf: {{spark.jars: '/nowhere/{S}.jar'}}}}",
        "spark: {{conf: {{spark.jars.packages: 'a:{S}:1'}}}}",
        "spark: {{conf: {{spark.jars.packages: '{S}'}}}}",
        "description: ['{S}']",
    ],
)
def test_what_a_reference_stands_for_is_never_printed(fake, monkeypatch, more, columns):
    """Pass: nor a part of it on a line of its own, however narrow the terminal is."""
    monkeypatch.setenv("MAINSTEM_TEST_SECRET", SECRET)
    monkeypatch.setenv("COLUMNS", columns)
    file = fake.document(DOCUMENT + more.format(S="${env:MAINSTEM_TEST_SECRET}") + "\n")
    text, _ = doctor(file)
    assert "hunter2" not in text
    assert "swordfish" not in text


def test_square_brackets_are_text(fake):
    """Pass: what looks like markup stands in the table as it was written."""
    file = fake.document(DOCUMENT + "'[bold]nosuchkey[/bold]': 1\n")
    assert "[bold]nosuchkey[/bold]" in doctor(file)[0]


@pytest.mark.in_turn
def test_the_doctor_imports_no_spark(fake):
    """Pass: neither pyspark nor the libraries it looks for are in sys.modules at the end."""
    file = fake.document(DOCUMENT)
    script = (
        "import sys; from pathlib import Path; from mainstem.cli.doctor import doctor\n"
        f"doctor(None); doctor(Path({str(file)!r}))\n"
        "print(sorted({'pyspark', 'pandas', 'pyarrow', 'py4j'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert result.stdout == "[]\n", result.stderr


def test_external_systems_that_do_not_answer_are_warnings(monkeypatch):
    """Pass: each is asked once; what is no server is not asked; nothing is sent, and no login is shown."""
    import socket

    with (
        socket.create_server(("127.0.0.1", 0)) as there,
        socket.create_server(("127.0.0.1", 0)) as gone,
    ):
        places = [f"kafka://127.0.0.1:{each.getsockname()[1]}" for each in (there, gone)]
        gone.close()
        datasets = [
            *(Dataset(place, name) for place in places for name in "xy"),
            Dataset("file", "/in"),
            Dataset("mainstem.radio", "test.rows"),
        ]
        given = SimpleNamespace(reads=[SimpleNamespace(datasets=datasets)], writes=[])
        monkeypatch.setattr(doctor_module, "Lineage", lambda _plan: given)
        found = {check.found: check.state for check in check_places(None)}
        connection, _ = there.accept()
        with connection:
            connection.settimeout(5)
            assert connection.recv(1) == b""
    assert found[f"{places[0]} answers"] == "ok"
    assert found[f"{places[1]}: Connection refused"] == "warning"
    assert len(found) == 2
