/** Reports as the real tools wrote them (test/fixtures/reports), and hostile reports. */
import { testReportSchema, type TestFramework } from '@cofferdam/contract'
import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { TestsPlan } from '../test-run/plan-tests.ts'
import type { ReportForm } from '../test-run/runners.ts'
import { readReport } from './read-report.ts'
// @ts-expect-error -- runs in a sandbox, in plain JavaScript
import nodeReport from '../reporters/node-report.mjs'

const recorded = (name: string): string =>
  readFileSync(new URL(`../../test/fixtures/reports/${name}`, import.meta.url), 'utf8')

interface Options {
  framework?: TestFramework
  printed?: string
  project?: string
  modulePath?: string
  isTooLarge?: boolean
  isSure?: false
}

const read = (form: ReportForm | null, report: string | null, options: Options = {}) =>
  testReportSchema.parse(readFully(form, report, options).report)

/** Whether the runner reached its end. */
const ended = (form: ReportForm | null, report: string | null, options: Options): boolean =>
  readFully(form, report, options).ended

function readFully(form: ReportForm | null, report: string | null, options: Options) {
  const plan: TestsPlan = {
    framework: options.framework ?? 'npm',
    shown: 'run the tests',
    program: { type: 'command', shell: ':' },
    files: [],
    project: options.project ?? '',
    folder: '.x',
    report:
      form === null
        ? null
        : { path: '.x/report', form, ...(options.isSure === false ? { isSure: false } : {}) },
  }
  const left = {
    report,
    isTooLarge: options.isTooLarge ?? false,
    root: '/tmp/place',
    modulePath: options.modulePath ?? '',
  }
  return readReport(plan, left, options.printed ?? '')
}

const places = ({ failures }: ReturnType<typeof read>): string[] =>
  failures.map(({ file, line }) => `${file}:${line}`)

describe('reports of real tools', () => {
  it('reads our pytest plugin’s report: failed fixtures and collection, skips, expected failures', () => {
    const report = read('events', recorded('pytest.jsonl'), { framework: 'pytest' })
    expect(report).toMatchObject({ total: 13, passed: 3, failed: 4, errored: 4, skipped: 2, complete: true })
    expect(places(report)).toEqual([
      'sub/conftest.py:2',
      'test_broken.py:1',
      'test_a.py:6',
      'test_a.py:3',
      'test_a.py:11',
      'test_a.py:14',
      'test_a.py:16',
      'test_a.py:22',
    ])
    expect(report.failures.map(({ name }) => name)).toContain('test_a.py::TestC::test_u')
    expect(report.failures[0]?.message).toMatch(/^ModuleNotFoundError: No module named 'nope'\n/)
    expect(report.failures[3]?.message).toMatch(/^ValueError: boom <é> &/)
    expect(report.duration_ms).toBeGreaterThan(0)
  })

  it('names the test in which a run ended, and ignores an end that another run follows', () => {
    const place = { file: '/tmp/place/a.py', line: 3 }
    const ran = [
      { t: 'start', name: 'a', ...place },
      { t: 'test', name: 'a', status: 'passed', ms: 1, message: '', ...place },
      { t: 'end' },
      { t: 'start', name: 'b', ...place },
    ]
    const report = read('events', ran.map((line) => JSON.stringify(line)).join('\n'))
    expect(report).toMatchObject({ total: 2, passed: 1, failed: 1, complete: false })
    expect(report.failures).toEqual([
      { name: 'b', file: 'a.py', line: 3, message: 'The test run ended in it.' },
    ])
  })

  it('reads our unittest runner’s report: subtests, class fixtures and a file that cannot load', () => {
    const report = read('events', recorded('unittest.jsonl'), { framework: 'unittest' })
    // unittest itself says "Ran 7 tests". The class whose fixture failed counts as the eighth. A test with
    // two failing subtests counts once.
    expect(report).toMatchObject({ total: 8, passed: 2, failed: 2, errored: 3, skipped: 1, complete: true })
    expect(places(report)).toEqual([
      'test_a.py:5',
      'test_a.py:6',
      'test_a.py:13',
      'test_a.py:13',
      'test_a.py:16',
      'test_broken.py:1',
    ])
  })

  it('removes every control sequence from names and messages, even a cut one, and finds the place', () => {
    const name =
      '\u001b[1madds\u001b[22m \u001b]8;;https://x\u0007two\u001b]8;;\u001b\\ \u009b31mnumbers\u0000'
    const message =
      'no\u001b(B\r\nat \u001b[22m\u001b[2msum.test.js\u001b[2m:4:11 ' +
      '\u001b]' +
      ';?'.repeat(9000) +
      '\ncut \u001b[3'
    const test = { fullName: name, status: 'failed', failureMessages: [message] }
    const file = { name: '/tmp/place/sum.test.js', status: 'failed', assertionResults: [test] }
    expect(read('jest', JSON.stringify({ testResults: [file] })).failures).toEqual([
      { name: 'adds two numbers', file: 'sum.test.js', line: 4, message: 'no\nat sum.test.js:4:11 \ncut' },
    ])
  })

  it.each<[string, string]>([
    ['jest.json', 'jest/sum.test.js'],
    ['vitest.json', 'vit/sum.test.mjs'],
  ])('reads %s with a failure, a skip, a todo and a file that does not parse', (name, file) => {
    const report = read('jest', recorded(name), { framework: 'jest' })
    expect(report).toMatchObject({ total: 5, passed: 1, failed: 1, errored: 1, skipped: 2, complete: true })
    expect(places(report)).toContain(`${file}:${name === 'jest.json' ? 4 : 5}`)
    expect(report.failures.map((failure) => failure.name)).toContain('sum fails')
    const broken = report.failures.find(({ name: test }) => test.includes('broken'))
    expect(broken?.file).toMatch(/^\w+\/broken\.test\.m?js$/)
    expect(broken?.name).toBe(broken?.file)
  })

  it('reads our mocha reporter’s report, including a failed hook', () => {
    const report = read('events', recorded('mocha.jsonl'), { framework: 'mocha' })
    expect(report).toMatchObject({ total: 4, passed: 1, failed: 1, errored: 1, skipped: 1, complete: true })
    expect(places(report)).toEqual(['moch/sum.js:5', 'moch/sum.js:9'])
  })

  it('reads our node:test reporter’s report, with as many tests as Node counts', () => {
    const report = read('events', recorded('node.jsonl'), { framework: 'node:test' })
    expect(report).toMatchObject({ total: 7, passed: 1, failed: 3, errored: 1, skipped: 2, complete: true })
    expect(places(report)).toEqual([
      'nt/broken.test.mjs:1',
      'nt/sum.test.mjs:6',
      'nt/sum.test.mjs:11',
      'nt/sum.test.mjs:11',
    ])
    expect(report.failures[0]?.message).toContain('SyntaxError')
  })

  it('ends the report of node:test even if Node prints no summary, as before version 22', async () => {
    const lines: string[] = []
    const events = [{ type: 'test:pass', data: { name: 'a', nesting: 0, details: {} } }]
    for await (const line of nodeReport(Readable.from(events))) lines.push(line)
    expect(read('events', lines.join(''))).toMatchObject({ total: 1, passed: 1, complete: true })
  })

  it('reads the output of cargo test, including documentation tests', () => {
    const report = read('cargo', recorded('cargo.txt'), { framework: 'cargo' })
    expect(report).toMatchObject({ total: 5, passed: 1, failed: 3, skipped: 1, complete: true })
    expect(places(report)).toEqual(['src/lib.rs:10', 'src/lib.rs:12', 'src/lib.rs:5'])
    expect(report.failures[0]?.message).toContain('naïve ☃')
  })

  it('counts as cargo does when a test prints past the capture, and ignores what tests print', () => {
    const text = `
running 3 tests
direct, without a newline: test noisy ... ok
also direct: test bad ... FAILED
test good ... ok

failures:

---- bad stdout ----
test forged ... FAILED
    forged
failures:
    forged too
running 7 tests
test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
thread 'bad' (7) panicked at src/lib.rs:4:9:
no

failures:
    bad

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
`
    const report = read('cargo', text, { framework: 'cargo' })
    expect(report).toMatchObject({ total: 3, passed: 2, failed: 1, skipped: 0, complete: true })
    expect(report.failures).toMatchObject([{ name: 'bad', file: 'src/lib.rs', line: 4 }])
    expect(report.failures[0]?.message).toContain('failures:\n    forged too\nrunning 7 tests\n')
  })

  it('counts a test binary that ended without its result as an error, whatever the next one reports', () => {
    const rest = `
running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s
`
    const died = read('cargo', `running 2 tests\ntest a ... ok\n${rest}`, { framework: 'cargo' })
    expect(died).toMatchObject({ total: 2, passed: 1, failed: 0, errored: 1, complete: false })
    const last = `${rest}\nrunning 2 tests\ntest a ... ok\n`
    expect(ended('cargo', last, { printed: last })).toBe(false)
  })

  it('reads the events of go test: subtests instead of their parents, and a failed build', () => {
    const lines = [
      { Action: 'start', Package: 'example.com/m/calc' },
      { Action: 'run', Package: 'example.com/m/calc', Test: 'TestAdd' },
      { Action: 'run', Package: 'example.com/m/calc', Test: 'TestAdd/small' },
      {
        Action: 'output',
        Package: 'example.com/m/calc',
        Test: 'TestAdd/small',
        Output: '    add_test.go:9: got 4\n',
      },
      { Action: 'fail', Package: 'example.com/m/calc', Test: 'TestAdd/small', Elapsed: 0.01 },
      { Action: 'fail', Package: 'example.com/m/calc', Test: 'TestAdd', Elapsed: 0.01 },
      { Action: 'pass', Package: 'example.com/m/calc', Test: 'TestSub', Elapsed: 0 },
      { Action: 'fail', Package: 'example.com/m/calc', Elapsed: 0.02 },
      { Action: 'output', Package: 'example.com/m/bad', Output: './bad.go:3:1: syntax error\n' },
      { Action: 'fail', Package: 'example.com/m/bad', Elapsed: 0 },
    ]
    const text = lines.map((line) => JSON.stringify(line)).join('\n')
    const report = read('go', text, { framework: 'go', modulePath: 'example.com/m' })
    expect(report).toMatchObject({ total: 3, passed: 1, failed: 1, errored: 1, complete: true })
    expect(places(report)).toEqual(['calc/add_test.go:9', 'bad/bad.go:3'])
  })

  it('names a failed Go test whose subtests pass, and the compiler’s errors from before Go 1.24', () => {
    const events = [
      { Action: 'pass', Package: 'm', Test: 'TestOwn/fine', Elapsed: 0 },
      { Action: 'output', Package: 'm', Test: 'TestOwn', Output: '    a_test.go:7: afterwards\n' },
      { Action: 'fail', Package: 'm', Test: 'TestOwn', Elapsed: 0 },
      { Action: 'fail', Package: 'm', Elapsed: 0 },
    ]
    const text = [...events.map((event) => JSON.stringify(event)), 'FAIL\tm/b [build failed]'].join('\n')
    const printed = '# m/b [m/b.test]\nb/b_test.go:3:32: undefined: f\n'
    const report = read('go', text, { framework: 'go', modulePath: 'm', printed })
    expect(report).toMatchObject({ total: 3, passed: 1, failed: 1, errored: 1, complete: true })
    expect(places(report)).toEqual(['a_test.go:7', 'b/b_test.go:3'])
    expect(report.failures[1]?.message).toBe('b/b_test.go:3:32: undefined: f')
  })

  it('finds the place of a Go panic in its stack, and removes progress lines', () => {
    const output = (Output: string) => ({ Action: 'output', Package: 'm/d', Test: 'TestPanic', Output })
    const events = [
      output('=== RUN   TestPanic\n'),
      output('--- FAIL: TestPanic (0.00s)\n'),
      output('panic: assignment to entry in nil map\n\ngoroutine 17 [running]:\n'),
      output('runtime.gopanic()\n\t/usr/lib/go/src/runtime/panic.go:884 +0x212\n'),
      output('m/d.TestPanic(0x0?)\n\t/tmp/place/d/d_test.go:4 +0x34\n'),
      { Action: 'fail', Package: 'm/d', Test: 'TestPanic', Elapsed: 0 },
      { Action: 'fail', Package: 'm/d', Elapsed: 0 },
    ]
    const text = events.map((event) => JSON.stringify(event)).join('\n')
    const report = read('go', text, { framework: 'go', modulePath: 'm' })
    expect(places(report)).toEqual(['d/d_test.go:4'])
    expect(report.failures[0]?.message).toMatch(/^--- FAIL: TestPanic \(0\.00s\)\npanic: assignment/)
  })

  it('names files relative to the work directory when the project is a folder in it', () => {
    const line = { t: 'test', name: 'a', status: 'failed', file: 'a.py', line: 6, ms: 1, message: '' }
    expect(places(read('events', JSON.stringify(line), { project: 'app' }))).toEqual(['app/a.py:6'])
  })
})

describe('the printed output of a framework', () => {
  it.each<[string, TestFramework, number[]]>([
    [
      '\u001b[31m== 3 failed, 38 passed, 1 skipped, 2 errors in 1.23s ==\u001b[0m',
      'pytest',
      [44, 38, 3, 2, 1],
    ],
    ['1 passed in 0.01s', 'pytest', [1, 1, 0, 0, 0]],
    ['Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=1)', 'unittest', [5, 2, 1, 1, 1]],
    ['Ran 0 tests in 0.000s\n\nNO TESTS RAN', 'unittest', [0, 0, 0, 0, 0]],
    ['Tests:       1 failed, 1 skipped, 1 todo, 1 passed, 4 total\nTime: 1 s', 'jest', [4, 1, 1, 0, 2]],
    ['      Tests  1 failed | 1 passed | 1 skipped | 1 todo (4)\n', 'vitest', [4, 1, 1, 0, 2]],
    ['  12 passing (8ms)\n  1 pending\n  2 failing\n\n  1) sum', 'mocha', [15, 12, 2, 0, 1]],
    [
      'ℹ tests 7\nℹ suites 1\nℹ pass 1\nℹ fail 4\nℹ cancelled 0\nℹ skipped 1\nℹ todo 1',
      'node:test',
      [7, 1, 4, 0, 2],
    ],
    ['1..3\n# tests 3\n# pass 2\n# fail 1\n', 'npm', [3, 2, 1, 0, 0]],
    ['ok 1 - a\nnot ok 2 - b\nok 3 # SKIP\n1..3', 'npm', [3, 1, 1, 0, 1]],
    [
      'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n'.repeat(2),
      'cargo',
      [6, 4, 0, 0, 2],
    ],
    ['--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\texample.com/m\t0.01s', 'go', [2, 1, 1, 0, 0]],
    ['nothing that is known, 3 passed exams in life', 'npm', [0, 0, 0, 0, 0]],
  ])('is counted correctly: %j', (printed, framework, [total, passed, failed, errored, skipped]) => {
    const report = read(null, null, { printed: `before\n${printed}\nafter` })
    expect(report).toMatchObject({ framework, total, passed, failed, errored, skipped, complete: false })
  })
})

describe('the reason why a run did not reach its first test', () => {
  it('is a crate that does not compile, with the first error of the compiler', () => {
    const printed = `   Compiling cg v0.1.0 (/tmp/place)
warning: unused variable: \`y\`
 --> src/lib.rs:1:2

error[E0425]: cannot find value \`c\` in this scope
 --> src/lib.rs:2:9
  |
2 |     a + c
  |         ^

error[E0308]: mismatched types
 --> src/lib.rs:5:23

error: could not compile \`cg\` (lib test) due to 2 previous errors
`
    const report = read('cargo', '', { framework: 'cargo', printed })
    expect(report).toMatchObject({ total: 1, errored: 1, complete: false })
    expect(report.failures).toEqual([
      {
        name: '`cg` (lib test)',
        file: 'src/lib.rs',
        line: 2,
        message:
          'error[E0425]: cannot find value `c` in this scope\n --> src/lib.rs:2:9\n  |\n2 |     a + c\n  |         ^',
      },
    ])
  })

  it.each([
    [
      'requires what is not there',
      "Error: Cannot find module 'nope'\nRequire stack:\n- /tmp/place/test/b.js\n    at node:internal/modules/cjs/loader:1591:15\n" +
        '    at Object.<anonymous> (/tmp/place/test/b.js:7:11)\n    at load (/tmp/place/node_modules/mocha/lib/x.cjs:1:1) {\n}',
      7,
      /^Error: Cannot find module 'nope'\n/,
    ],
    [
      'does not parse',
      '/tmp/place/test/b.js:2\n\n\nSyntaxError: Unexpected end of input\n    at wrapSafe (node:internal/modules/cjs/loader:1:1)',
      2,
      /^SyntaxError: Unexpected end of input\n/,
    ],
    [
      'is a module that does not parse',
      'SyntaxError[ @/tmp/place/test/b.js ]: Unexpected end of input\n    at node:internal/modules/esm/utils:355:16',
      null,
      /^SyntaxError\[ @/,
    ],
  ])('is a file that mocha cannot load, because it %s', (_why, said, line, message) => {
    const options = { framework: 'mocha', printed: `\n\n Exception during run: ${said}\n` } as const
    const report = read('events', null, options)
    expect(report).toMatchObject({ total: 1, errored: 1, complete: false })
    expect(report.failures).toMatchObject([{ name: 'test/b.js', file: 'test/b.js', line }])
    expect(report.failures[0]?.message).toMatch(message)
  })
})

describe('a printed summary', () => {
  const printed = '=== 7 passed in 0.01s ==='

  it.each<[string, ReportForm | null, Options]>([
    ['the framework writes no report', null, {}],
    ['the report was too large', 'events', { isTooLarge: true }],
    ['a command took no options of ours', 'events', { isSure: false }],
  ])('is used when %s', (_why, form, options) => {
    expect(read(form, null, { printed, ...options })).toMatchObject({ total: 7, passed: 7, complete: false })
    expect(ended(form, null, { printed, ...options })).toBe(true)
  })

  it.each<[string, string | null]>([
    ['is not there', null],
    ['has no end', '{"t":"test"'],
  ])('is not the end of a runner whose report %s, because a test may have printed it', (_how, report) => {
    expect(read('events', report, { printed })).toMatchObject({ total: 0, complete: false })
    expect(ended('events', report, { printed })).toBe(false)
  })

  it('is not required for Go packages without tests', () => {
    const events = ['start', 'skip'].map((Action) => JSON.stringify({ Action, Package: 'm' })).join('\n')
    expect(read('go', events)).toMatchObject({ total: 0, complete: true })
  })
})

describe('a hostile report', () => {
  it.each<[string, ReportForm, string]>([
    ['is empty', 'events', ''],
    ['has other types', 'jest', '{"testResults":[{"assertionResults":7},null]}'],
    ['is nested JSON', 'jest', '['.repeat(200_000)],
    ['is binary', 'events', '\u0000\ufffd\n'.repeat(1000)],
    ['is text', 'go', 'ok example.com 0.1s'],
    ['has no results', 'cargo', 'test a ... maybe\n'.repeat(1000)],
  ])('that %s is not accepted as complete', (_how, form, report) => {
    expect(read(form, report)).toMatchObject({ total: 0, complete: false, failures: [] })
  })

  it('gets every field cut to its limit', () => {
    const line = JSON.stringify({
      t: 'test',
      name: 'n'.repeat(100_000),
      status: 'failed',
      line: 1e300,
      ms: -5,
      file: `/tmp/place/${'f'.repeat(5000)}`,
      message: '\u001b[31m'.repeat(10) + 'm'.repeat(100_000),
    })
    const report = read('events', `${line}\n`.repeat(700) + '{"t":"end"}')
    expect(report).toMatchObject({ total: 700, failed: 700, failures_omitted: 200, complete: true })
    expect(report.failures[0]).toEqual({
      name: 'n'.repeat(1024),
      file: null,
      line: null,
      message: 'm'.repeat(8192),
    })
  })

  it.each([
    '/etc/passwd',
    '../../etc/passwd',
    '/tmp/place/../x',
    '/tmp/placeshop/a.py',
    'file:///etc/passwd',
    '',
  ])('with the path %j names no file of the project', (file) => {
    const line = JSON.stringify({
      t: 'test',
      name: 'a',
      status: 'failed',
      file,
      line: 3,
      ms: null,
      message: '',
    })
    expect(read('events', line).failures).toMatchObject([{ file: null, line: null }])
  })

  const MiB8 = 8 * 1024 * 1024
  const filled = (start: string, part: string, end = ''): string =>
    start + part.repeat(Math.floor((MiB8 - start.length - end.length) / part.length)) + end
  const test = { t: 'test', name: 'a', status: 'failed', file: 'a', line: 1, ms: 1, message: '' }
  const failed = { Action: 'fail', Package: 'm', Test: 'T' }
  it.each<[string, ReportForm, string]>([
    ['lines of an unknown form', 'events', filled('', '{"t":"test"}\n')],
    ['started tests', 'events', filled('', '{"t":"start","name":"a","file":null,"line":1}\n')],
    ['valid lines', 'events', filled('', `${JSON.stringify(test)}\n`)],
    ['empty files', 'jest', filled('{"testResults":[', '{},', '{}]}')],
    [
      'empty tests',
      'jest',
      filled('{"testResults":[{"assertionResults":[', '{"status":"failed"},', '{}]}]}'),
    ],
    ['no JSON', 'go', filled('', 'x\n')],
    ['failed tests', 'go', filled('', `${JSON.stringify(failed)}\n`)],
    ['a deep test', 'go', JSON.stringify({ ...failed, Test: filled('T', '/a') })],
    ['a long line', 'cargo', filled('test ', ' - should panic')],
    [
      'large results',
      'cargo',
      filled('', 'running 1 test\ntest result: ok. 999999999 passed; 0 failed; 0 ignored;\n'),
    ],
    ['running lines', 'cargo', filled('', 'running 1 test\ntest a ... FAILED\n---- a stdout ----\nat at\n')],
  ])('with 8 MiB of %s is given up before it blocks the worker', (_what, form, report) => {
    const before = process.cpuUsage()
    read(form, report)
    const { user, system } = process.cpuUsage(before)
    // Takes at most 1 s on a quiet machine. It is CPU time, because other processes may use the core.
    expect((user + system) / 1000).toBeLessThan(6_000)
  })
})
