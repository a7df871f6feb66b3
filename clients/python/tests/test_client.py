"""Against a real fleet: COFFERDAM_URL and COFFERDAM_API_KEY of an admin, tenant `acme`, backend `process`."""
from __future__ import annotations

import ast
import asyncio
import pathlib
import socket
import threading
import time
import unittest
from typing import Any

import cofferdam
from cofferdam import AsyncClient, Client, CofferdamError

UNKNOWN = "exe_01a217a4fb417a9c9e94a5d09b1104a3"
WHO: dict[str, Any] = {"tenant_id": "acme", "agent_id": "python"}


def python(source: str, **more: Any) -> Any:
    return {**WHO, "program": {"type": "script", "language": "python", "source": source}, **more}


class Programs(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client()
        self.addCleanup(self.client.close)

    def test_a_program_runs_and_its_failure_is_a_result(self) -> None:
        result = self.client.run_code("print('grüße')\n6 * 7", **WHO)
        self.assertEqual((result["ok"], result["stdout"], result.get("value")), (True, "grüße\n", 42))
        failed = self.client.run(python("raise SystemExit(3)"))
        self.assertEqual((failed["ok"], failed["ending"], failed["exit_code"]), (False, "error", 3))

    def test_a_kept_program_runs_again_with_edits_and_both_are_compared(self) -> None:
        first = self.client.run(python("import sys; print(len(sys.argv)); sys.exit(len(sys.argv) - 2)"))
        self.assertEqual(first["exit_code"], 255)
        again = self.client.rerun(first["execution_id"], {"args": ["one"]})
        self.assertEqual(again["rerun_of"], first["execution_id"])
        new = again["execution"]["execution_id"]
        result = self.client.wait(new)
        self.assertTrue(result is not None and result["ok"])
        self.assertEqual(self.client.compare(new)["differences"], ["ending", "exit_code", "stdout"])
        with self.assertRaises(CofferdamError) as raised:
            self.client.rerun(UNKNOWN)
        self.assertEqual(raised.exception.code, "not_found")

    def test_events_come_live_and_continue_after_any_of_them(self) -> None:
        accepted = self.client.enqueue(python("for n in range(3): print(n, flush=True)"))
        seen = list(self.client.stream(accepted["execution_id"]))
        types = [stored.event["type"] for stored in seen]
        self.assertEqual((types[0], types[-1]), ("queued", "ended"))
        text = "".join(stored.event["text"] for stored in seen if stored.event["type"] == "output")
        self.assertEqual(text, "0\n1\n2\n")
        for index, stored in enumerate(seen[:-1]):
            rest = list(self.client.stream(accepted["execution_id"], after=stored.id))
            self.assertEqual(rest, seen[index + 1 :])

    def test_the_whole_output_and_the_artifacts_can_be_fetched(self) -> None:
        make = "import os; os.mkdir('ü b'); open('ü b/x.bin', 'wb').write(bytes(range(256)))"
        source = make + "; print('x' * 100_000)"
        result = self.client.run(python(source, artifacts=["**/*"], limits={"stdout_bytes": 1000}))
        self.assertTrue(result["stdout_truncated"])
        self.assertEqual(self.client.output(result["execution_id"]), b"x" * 100_000 + b"\n")
        [artifact] = self.client.artifacts(result["execution_id"])
        self.assertEqual(self.client.artifact(result["execution_id"], artifact["path"]), bytes(range(256)))

    def test_a_large_file_goes_in_and_out(self) -> None:
        content = "é" * (4 * 1024 * 1024)
        files = [{"path": "in.txt", "content": content}]
        copy = "import shutil; shutil.copy('in.txt', 'out.txt')"
        result = self.client.run(python(copy, artifacts=["out.txt"], files=files))
        self.assertEqual(self.client.artifact(result["execution_id"], "out.txt").decode(), content)

    def test_an_execution_is_cancelled_and_a_wait_gives_up(self) -> None:
        accepted = self.client.enqueue(python("import time; time.sleep(60)"))
        self.assertIsNone(self.client.wait(accepted["execution_id"], timeout=0.2))
        self.assertIn(self.client.cancel(accepted["execution_id"], "enough"), ("cancelled", "cancelling"))
        result = self.client.wait(accepted["execution_id"])
        self.assertEqual(result and result["ending"], "cancelled")
        with self.assertRaises(CofferdamError) as raised:
            self.client.run(python("import time; time.sleep(2)"), timeout=0.1)
        self.assertEqual(raised.exception.code, "wait_timeout")
        self.assertIn("execution_id", raised.exception.details)

    def test_the_same_idempotency_key_runs_once(self) -> None:
        request = python("import uuid; print(uuid.uuid4())", idempotency_key="once")
        self.assertEqual(self.client.run(request)["stdout"], self.client.run(request)["stdout"])
        with self.assertRaises(CofferdamError) as raised:
            self.client.run(python("print(2)", idempotency_key="once"))
        self.assertEqual(raised.exception.code, "idempotency_conflict")

    def test_figures_by_minute_and_the_tenants_of_the_queue_can_be_read(self) -> None:
        self.client.run_code("print(1)", tenant_id="acme", agent_id="counted")
        stats = self.client.stats(step="1h", group_by="ending", tenant_id="acme")
        self.assertGreaterEqual(sum(count or 0 for count in stats["total"]["count"]), 1)
        self.assertIn("ok", [group["key"] for group in stats["groups"]])
        self.assertTrue(self.client.queue_tenants(sort="waiting", limit=5)["complete"])

    def test_executions_are_listed_page_by_page(self) -> None:
        ids = [self.client.run({**python("1"), "agent_id": "lister"})["execution_id"] for _ in range(3)]
        listed = self.client.executions(tenant_id="acme", agent_id="lister")
        self.assertEqual([state["execution_id"] for state in listed], ids[::-1])


class Sessions(unittest.TestCase):
    def test_files_of_a_session_are_listed_read_written_and_removed(self) -> None:
        with Client() as client:
            session: Any = {"key": "notebook", "scope": "files"}
            ran = client.run(python("open('a.txt', 'w').write('one')", session=session, backend="process"))
            self.assertTrue(ran["ok"], ran)
            files = client.sessions("process", "notebook", tenant_id="acme")
            files.write("deep/ö.bin", b"\0\xff")
            self.assertLessEqual({"a.txt", "deep/ö.bin"}, {one["path"] for one in files.files()})
            self.assertEqual((files.read("a.txt"), files.read("deep/ö.bin")), (b"one", b"\0\xff"))
            files.remove("a.txt")
            self.assertEqual([one["path"] for one in files.files("deep")], ["deep/ö.bin"])
            self.assertIn("notebook", [one["key"] for one in client.sessions.list(tenant_id="acme")])
            # This backend has no snapshots. tests/e2e/paused-sessions.long.test.ts tests those of microvm.
            for refused in (files.pause, files.resume, lambda: files.fork(["copy"])):
                with self.assertRaises(CofferdamError) as raised:
                    refused()
                self.assertEqual(raised.exception.code, "capability_missing")
            files.end()
            with self.assertRaises(CofferdamError) as raised:
                files.info()
            self.assertEqual(raised.exception.code, "session_not_found")


class Schedules(unittest.TestCase):
    def test_a_routine_is_created_run_changed_and_deleted(self) -> None:
        with Client() as client:
            routine = client.routines.create({"name": "nightly", "request": python("print('ran')")})
            first = client.routines.run(routine["routine_id"], key="k")
            self.assertEqual(client.routines.run(routine["routine_id"], key="k"), first)
            self.assertEqual(len(client.routines.runs(routine["routine_id"])), 1)
            changed = client.routines.change(routine["routine_id"], {"name": "daily"})
            self.assertEqual(changed["name"], "daily")
            self.assertIn("daily", [one["name"] for one in client.routines.list(tenant_id="acme")])
            client.routines.delete(routine["routine_id"])
            with self.assertRaises(CofferdamError):
                client.routines.get(routine["routine_id"])


class Failures(unittest.TestCase):
    def test_each_failure_has_its_code_and_says_what_to_do(self) -> None:
        with Client() as client:
            for call, code in (
                (lambda: client.enqueue({**python("1"), "no_such_field": 1}), "invalid_request"),
                (lambda: client.wait(UNKNOWN, timeout=1), "not_found"),
                (lambda: client.sessions("process", "none", tenant_id="acme").end(), "session_not_found"),
                (lambda: Client(api_key="cfd_" + "0" * 40).enqueue(python("1")), "unauthenticated"),
            ):
                with self.assertRaises(CofferdamError) as raised:
                    call()
                self.assertEqual(raised.exception.code, code)
                self.assertTrue(raised.exception.hint)
            self.assertIsNone(client.get(UNKNOWN))

    def test_wrong_settings_are_refused_at_once(self) -> None:
        wrong = (("127.0.0.1:1", "cfd_x"), ("ftp://127.0.0.1", "cfd_x"), ("http://127.0.0.1", "a\nb"))
        for url, key in wrong:
            with self.assertRaises(ValueError):
                Client(url, key)

    def test_an_api_that_is_away_is_asked_again_and_then_reported(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            accepted: list[int] = []

            def refuse() -> None:
                while True:
                    try:
                        connection, _ = server.accept()
                    except OSError:
                        return
                    accepted.append(1)
                    connection.close()

            threading.Thread(target=refuse, daemon=True).start()
            with self.assertRaises(CofferdamError) as raised:
                Client(f"http://127.0.0.1:{port}", "cfd_x").get("exe_1")
            server.shutdown(socket.SHUT_RDWR)
        self.assertEqual((raised.exception.code, raised.exception.retry), ("queue_unavailable", "later"))
        self.assertEqual(len(accepted), 5)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_programs_run_side_by_side_and_stream(self) -> None:
        async with AsyncClient() as client:
            results = await asyncio.gather(*(client.run_code(f"print({n})", **WHO) for n in range(5)))
            self.assertEqual([result["stdout"] for result in results], [f"{n}\n" for n in range(5)])
            types = [stored.event["type"] async for stored in client.stream(results[0]["execution_id"])]
            self.assertEqual((types[0], types[-1]), ("queued", "ended"))
            states = [state async for state in client.executions(tenant_id="acme")]
            self.assertGreaterEqual(len(states), 5)

    async def test_a_cancelled_task_ends_at_once_and_its_execution_goes_on(self) -> None:
        async with AsyncClient() as client:
            accepted = await client.enqueue(python("import time; time.sleep(20); print('done')"))

            async def read() -> None:
                async for _ in client.stream(accepted["execution_id"]):
                    pass

            for waiting in (client.wait(accepted["execution_id"]), read()):
                task = asyncio.ensure_future(waiting)
                done, _ = await asyncio.wait([task], timeout=0.5)
                self.assertFalse(done)
                began = time.monotonic()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertLess(time.monotonic() - began, 5)
            state = await client.get(accepted["execution_id"])
            self.assertNotEqual(state and state["status"], "ended")
            await client.cancel(accepted["execution_id"])


class Package(unittest.TestCase):
    def test_every_file_is_python_3_9_and_imports_only_the_standard_library(self) -> None:
        folder = pathlib.Path(cofferdam.__file__).parent
        allowed = set("__future__ asyncio contextvars http json os socket threading time typing".split())
        allowed |= {"urllib", "uuid"}
        for path in folder.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 9))):
                if isinstance(node, ast.Import):
                    self.assertLessEqual({name.name.split(".")[0] for name in node.names}, allowed, path)
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    self.assertIn((node.module or "").split(".")[0], allowed, path)
        self.assertTrue((folder / "py.typed").exists())
