"""Runs the examples of README.md and docs/sdk.md, which were extracted into `example_N.py`."""

import asyncio
import sys
from pathlib import Path
from unittest import IsolatedAsyncioTestCase

import support

from berth import Berth


class ExamplesTest(IsolatedAsyncioTestCase):
    async def test_examples_succeed_and_release_the_environment(self) -> None:
        examples = sorted(Path(__file__).parent.glob("example_*.py"))
        self.assertTrue(examples)
        async with Berth() as ada:
            await support.define_pipeline(ada)
            for example in examples:
                process = await asyncio.create_subprocess_exec(sys.executable, str(example))
                self.assertEqual(await process.wait(), 0, example)
                environment = await support.read_environment(ada, "qa-1")
                self.assertEqual(environment["lockStatus"], "unlocked", example)
