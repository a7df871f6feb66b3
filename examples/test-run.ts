/**
 * A test run. Cofferdam detects the framework from the files in the work directory, and reads the framework's
 * own report.
 *
 * Output:
 *   unittest: 1 of 2 passed, ending error
 *   failed at test_sums.py:8: AssertionError: 2 != 3
 */
import { connect } from './connect.ts'

await using client = connect()

const tests = `import unittest
from sums import add

class Sums(unittest.TestCase):
    def test_right(self):
        self.assertEqual(add(1, 1), 2)
    def test_wrong(self):
        self.assertEqual(add(1, 1), 3)
`
const { tests: report, ending } = await client.run({
  tenant_id: 'demo',
  agent_id: 'examples',
  program: { type: 'tests' },
  files: [
    { path: 'sums.py', content: 'def add(a, b):\n    return a + b\n' },
    { path: 'test_sums.py', content: tests },
  ],
})
console.log(`${report?.framework}: ${report?.passed} of ${report?.total} passed, ending ${ending}`)
for (const { file, line, message } of report?.failures ?? [])
  console.log(`failed at ${file}:${line}: ${message.trim().split('\n').at(-1)}`)
