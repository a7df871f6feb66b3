/** Every command against a real `up`: private Redis and Postgres, API, worker, and the strongest backend. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { inLongTier, needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { runHere } from './command-here.ts'
import {
  processesNaming,
  run as runCommand,
  start as startCommand,
  type Place,
  type Running,
} from './command-process.ts'
import { DAY_MS, temporaryFolder, untilWindowLasts } from '@cofferdam/embedded/testing'

/** A command starts in a second, or in thirty on a busy machine. Some tests start four. */
const STARTED_MS = 90_000
vi.setConfig({ testTimeout: 4 * STARTED_MS })

// Without user namespaces, root's Postgres runs as another user, which must be able to enter the directory.
const base = temporaryFolder('cli', 0o711)
const dataDir = path.join(base, 'data')
const cwd = path.join(base, 'here')
beforeAll(() => mkdirSync(cwd))

const place = (env: Record<string, string> = {}): Place => ({
  cwd,
  env: { COFFERDAM_DATA_DIR: dataDir, ...env },
})

interface Report {
  url: string
  result: {
    ok: boolean
    execution_id: string
    stdout: string
    value: unknown
    trace_id: string
    backend: string
  }
  audit: { execution_id: string; ending: string; trace_id: string }
}

/**
 * Adds the cheapest backend (process) to commands that start a program. The demo of `up` runs on the
 * strongest.
 */
function onProcess([command = '', ...rest]: readonly string[]): string[] {
  const starts = ['run', 'test', 'enqueue'].includes(command) && !rest.includes('--local')
  return starts ? [command, '--backend', 'process', ...rest] : [command, ...rest]
}

needs('process').describe('the command', () => {
  let up: Running
  let report: Report
  const here = (env: Record<string, string> = {}): Place => place({ COFFERDAM_URL: report.url, ...env })
  const run = (args: readonly string[], input = '') => runHere(onProcess(args), here(), input)
  const runProcess = (args: readonly string[], input = '') => runCommand(onProcess(args), here(), input)
  const start = (args: readonly string[], input = '') => startCommand(onProcess(args), here(), input)
  const json = async (...args: string[]): Promise<unknown> => {
    const { stdout, stderr, status } = await run([...args, '--json'])
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    return JSON.parse(stdout)
  }
  const write = (name: string, text: string): void => writeFileSync(path.join(cwd, name), text)

  beforeAll(async () => {
    up = startCommand(['up', '--port', '0', '--json'], place())
    await vi.waitFor(
      () => {
        if (up.child.exitCode !== null) throw new Error(`up ended: ${up.stderr}`)
        report = JSON.parse(up.stdout) as Report
      },
      { timeout: 110_000, interval: 100 },
    )
  })

  afterAll(async () => {
    up.child.kill('SIGKILL')
    await up.ended
    // However `up` died, none of its processes may outlive it.
    await vi.waitFor(() => expect(processesNaming(dataDir)).toEqual([]), { timeout: 20_000 })
  })

  describe('up', () => {
    it('runs the demo on the backend that doctor recommends, with an audit row in its trace', async () => {
      const { stdout } = await runProcess(['doctor', '--json'])
      const { best } = JSON.parse(stdout) as { best: { name: string } }
      expect(report.result).toMatchObject({ ok: true, value: 2, backend: best.name })
      expect(report.result.stdout).toMatch(/^Hello from Python 3\.\d+\.\d+ in a sandbox\n$/)
      expect(report.result.trace_id).toMatch(/^[0-9a-f]{32}$/)
      expect(report.audit).toMatchObject({
        execution_id: report.result.execution_id,
        ending: 'ok',
        trace_id: report.result.trace_id,
      })
    })

    it('makes its admin key readable by its own user only', () => {
      expect(readFileSync(path.join(dataDir, 'admin.key'), 'utf8')).toMatch(/^cfd_[0-9a-f]{40}\n$/)
      expect(statSync(path.join(dataDir, 'admin.key')).mode & 0o777).toBe(0o600)
      // Only the owner may list it. Postgres never runs as root and must be able to enter root's directory.
      expect(statSync(dataDir).mode & 0o777).toBe(process.getuid?.() === 0 ? 0o711 : 0o700)
    })

    inLongTier('refuses a second `up` in the same directory, with and without --clean', async () => {
      for (const args of [
        ['up', '--once'],
        ['up', '--once', '--clean'],
      ]) {
        const { status, stderr } = await runProcess(args)
        expect(status).toBe(1)
        expect(stderr).toContain(`is in use by another process (pid ${up.child.pid})`)
      }
      expect(existsSync(path.join(dataDir, 'admin.key'))).toBe(true)
    })

    inLongTier('reports that its port is in use before it starts anything', async () => {
      const other = { COFFERDAM_DATA_DIR: path.join(base, 'other') }
      const port = new URL(report.url).port
      const { status, stderr } = await runCommand(['up', '--once', '--port', port], place(other))
      expect(status).toBe(1)
      expect(stderr).toContain(`cannot listen on 127.0.0.1:${port}`)
      expect(existsSync(path.join(base, 'other', 'postgres'))).toBe(false)
    })

    inLongTier('removes with --clean only a directory that `up` created', async () => {
      write('precious', 'x')
      const { status, stderr } = await runCommand(
        ['up', '--clean', '--once'],
        place({ COFFERDAM_DATA_DIR: cwd }),
      )
      expect(status).toBe(2)
      expect(stderr).toContain('created, and')
      expect(existsSync(path.join(cwd, 'precious'))).toBe(true)
    })
  })

  describe('run', () => {
    it('prints the program’s output unchanged and exits with the program’s status', async () => {
      write('three.py', 'import sys\nprint("to stdout")\nprint("to stderr", file=sys.stderr)\nsys.exit(3)\n')
      const { status, stdout, stderr } = await runProcess(['run', 'three.py'])
      expect(status).toBe(3)
      expect(stdout).toBe('to stdout\n')
      expect(stderr).toMatch(/^to stderr\n✗ error/)
    })

    it('prints nothing besides the program’s output when the program succeeds in a pipe', async () => {
      expect(await runProcess(['run', '-', '--language', 'python'], 'print(6*7)')).toEqual({
        status: 0,
        signal: null,
        stdout: '42\n',
        stderr: '',
      })
    })

    it('passes arguments, input, files and variables to the program, and saves its artifacts', async () => {
      write(
        'all.py',
        'import os, sys\nprint(sys.argv[1:], sys.stdin.read(), open("in/d").read(), ' +
          'os.environ["K"])\nopen("out.txt", "w").write("made")\n',
      )
      write('d.txt', 'file')
      const args = [
        'run',
        'all.py',
        '--stdin',
        '-',
        '--file',
        'd.txt=in/d',
        '--env',
        'K=v=1',
        '--artifact',
        '*.txt',
      ]
      const { status, stdout } = await runProcess([...args, '--save', 'saved', '--', '-x', 'y'], 'typed')
      expect({ status, stdout }).toEqual({ status: 0, stdout: "['-x', 'y'] typed file v=1\n" })
      expect(readFileSync(path.join(cwd, 'saved/out.txt'), 'utf8')).toBe('made')
    })

    it('prints one JSON value with --json, whatever the program prints', async () => {
      const { status, stdout } = await run(['run', '-', '-l', 'bash', '--json'], 'echo {; exit 4')
      expect(status).toBe(4)
      expect(JSON.parse(stdout)).toMatchObject({ ok: false, exit_code: 4, stdout: '{\n', ending: 'error' })
    })

    it('exits with 124 when the time limit is reached', async () => {
      const { status, stdout } = await run(
        ['run', '-', '-l', 'python', '-t', '3s'],
        'import time\nprint("on", flush=True)\ntime.sleep(60)',
      )
      expect({ status, stdout }).toEqual({ status: 124, stdout: 'on\n' })
    })

    it('cancels the execution on Ctrl-C and exits with 130', async () => {
      const running = start(
        ['run', '-', '-l', 'python'],
        'import time\nprint("on", flush=True)\ntime.sleep(60)',
      )
      await vi.waitFor(() => expect(running.stdout).toBe('on\n'), STARTED_MS)
      running.child.kill('SIGINT')
      const { status, stderr } = await running.ended
      expect(status).toBe(130)
      expect(stderr).toContain('cancelled')
    })

    inLongTier('runs the file again when it changes with --watch', async () => {
      write('watched.sh', 'echo one')
      const running = start(['run', 'watched.sh', '--watch'])
      await vi.waitFor(() => expect(running.stderr).toContain('Waiting for a change'), STARTED_MS)
      write('watched.sh', 'echo two; exit 9')
      await vi.waitFor(() => expect(running.stderr).toContain('Exit status 9.'), { timeout: 30_000 })
      running.child.kill('SIGINT')
      expect(await running.ended).toMatchObject({ status: 9, stdout: 'one\ntwo\n' })
    })

    it('runs without a queue with --local', async () => {
      const { status, stdout } = await runCommand(
        ['run', '--local', '-', '-l', 'python'],
        place({ COFFERDAM_URL: 'http://127.0.0.1:9' }),
        'print(1)\nraise SystemExit(5)',
      )
      expect({ status, stdout }).toEqual({ status: 5, stdout: '1\n' })
    })
  })

  it('test runs the tests of a folder and names the failed test with its file and line', async () => {
    mkdirSync(path.join(cwd, 'project'))
    write('project/sums.py', 'def add(a, b):\n    return a + b\n')
    const source = (expected: number) =>
      'import unittest\nfrom sums import add\n\nclass Sums(unittest.TestCase):\n    def test_add(self):\n ' +
      `       self.assertEqual(add(1, 1), ${expected})\n`
    write('project/test_sums.py', source(3))
    const wrong = await run(['test', 'project', '--json'])
    expect(wrong.status).toBe(1)
    expect(JSON.parse(wrong.stdout)).toMatchObject({
      tests: { framework: 'unittest', total: 1, failed: 1, failures: [{ file: 'test_sums.py', line: 6 }] },
    })
    expect((await run(['test', 'project'])).stderr).toMatch(/1 failed of 1 \(unittest\)[^]*test_sums\.py:6/)
    write('project/test_sums.py', source(2))
    expect((await run(['test', 'project'])).status).toBe(0)
  })

  needs('process-namespaces').it('run keeps a session over several commands', async () => {
    const session = ['--session', 'cli-session']
    await run(['run', '-', '-l', 'bash', ...session], 'echo kept > note.txt')
    expect((await run(['run', '-', '-l', 'bash', ...session], 'cat note.txt')).stdout).toBe('kept\n')
  })

  it('enqueue prints an ID; status and logs use it, and logs --follow exits as the program did', async () => {
    write('slow.sh', 'echo begun; sleep 1; echo done; exit 6')
    const { stdout } = await run(['enqueue', 'slow.sh'])
    const id = stdout.trim()
    expect(id).toMatch(/^exe_[0-9a-f]{32}$/)
    const followed = await runProcess(['logs', id, '--follow'])
    expect(followed).toMatchObject({ status: 6, stdout: 'begun\ndone\n' })
    expect(await run(['logs', id])).toMatchObject({ status: 0, stdout: 'begun\ndone\n' })
    expect(await json('status', id)).toMatchObject({
      execution_id: id,
      status: 'ended',
      result: { exit_code: 6 },
    })
    const why = await run(['why', id])
    expect(why.status).toBe(0)
    expect(why.stdout).toMatch(
      /why it ran there\n(?: {4}passed_over: [^]*)? {4}taken: [^]*why it ended so\n {4}error: .*code 6/,
    )
    expect((await run(['why', 'exe_00000000000070008000000000000000'])).status).toBe(1)
  })

  it('rerun runs a kept program again with edits and prints the differences; compare does too', async () => {
    write('report.py', 'import sys\nprint("total", len(sys.argv))\nsys.exit(len(sys.argv) - 1)')
    write('fixed.py', 'print("total 0")\nprint("\\x1b[2Jfixed")')
    const first = (await run(['run', 'report.py', '--json', '--', 'one'])).stdout
    const { execution_id: id } = JSON.parse(first) as { execution_id: string }
    const refused = await run(['rerun', id])
    expect(refused.status).toBe(1)
    expect(refused.stderr).toMatch(/has keep_program never.*With errors or always/)

    expect((await run(['tenant', 'set', 'demo', '--keep-program', 'errors'])).status).toBe(0)
    const failed = (await run(['run', 'report.py', '--json', '--env', 'MODE=x', '--', 'one'])).stdout
    const { execution_id: kept } = JSON.parse(failed) as { execution_id: string }
    // This fleet has no output key (COFFERDAM_OUTPUT_KEYS), so it does not keep the values of variables.
    expect((await run(['rerun', kept])).stderr).toMatch(/edit\.env, or null: MODE/)
    const same = await run(['rerun', kept, '--unset-env', 'MODE'])
    expect(same.status).toBe(1)
    expect(same.stdout).toMatch(/The results are alike\.\n +FIRST +AGAIN\n +execution +exe_\w+ +exe_/)
    const edited = await run(['rerun', kept, '--program', 'fixed.py', '--env', 'MODE=y', '--memory', '128'])
    expect(edited.status).toBe(0)
    expect(edited.stdout).toMatch(/differ in: program, ending, exit_code, stdout\n/)
    expect(edited.stdout).toMatch(/ending +error +ok\n[^]*- total 2\n +\+ total 0\n/)
    const words = await run(['rerun', kept, '--json', '--unset-env', 'MODE', '--', 'two', 'words'])
    const report = JSON.parse(words.stdout) as { execution: { execution_id: string } }
    expect([words.status, report]).toMatchObject([
      2,
      { rerun_of: kept, result: { exit_code: 2 }, comparison: { differences: ['exit_code', 'stdout'] } },
    ])
    const again = report.execution.execution_id
    const compared = await run(['compare', again])
    expect(compared.stdout).toContain(`${kept}  ${again}`)
    expect((await run(['compare', again, 'nothing'])).status).toBe(2)
    expect((await run(['rerun', kept, '--edit', '{"tenant_id":"x"}'])).status).toBe(2)
    expect((await run(['tenant', 'set', 'demo', '--keep-program', 'never'])).status).toBe(0)
  })

  it('enqueue returns the same execution for the same idempotency key', async () => {
    const args = ['enqueue', '-', '-l', 'bash', '--idempotency-key', 'once']
    const [first, second] = [await run(args, 'true'), await run(args, 'true')]
    expect(first.stdout).toBe(second.stdout)
    const other = await run(args, 'false')
    expect(other.status).toBe(1)
    expect(other.stderr).toContain('idempotency key')
  })

  it('cancel stops a running execution and does nothing to an ended one', async () => {
    const { stdout } = await run(['enqueue', '-', '-l', 'bash'], 'echo on; sleep 60')
    const id = stdout.trim()
    expect((await run(['cancel', id])).stdout).toMatch(new RegExp(`^${id}: cancell`))
    expect((await run(['logs', id, '-f'])).status).toBe(130)
    expect((await run(['cancel', id])).stdout).toBe(`${id}: had already ended; nothing changed\n`)
  })

  it('queue shows lanes, workers and tenants, and stats what ended by minute', async () => {
    const lanes = await run(['queue'])
    expect(lanes.stdout).toMatch(/^LANE +WAITING[^]*\ninteractive +\d[^]*\nWORKER[^]*\nwrk_/)
    expect((await run(['queue', 'lanes'])).status).toBe(2)
    const id = (await run(['enqueue', '-', '-l', 'bash'], 'sleep 60')).stdout.trim()
    // The execution is in the queue for a moment before a worker takes it.
    await vi.waitFor(
      async () => {
        const { stdout } = await run(['queue', 'tenants', '--sort', 'waiting'])
        expect(stdout).toMatch(/^NEXT +TENANT +WAITING +RUNNING +LIMIT +GOT +DUE[^\n]*\n- +demo +0 +1 /)
      },
      { timeout: STARTED_MS, interval: 500 },
    )
    await run(['cancel', id])
    const stats = await run(['stats', '--by', 'ending', '--since', '1h'])
    expect(stats.stdout).toMatch(/^FROM +ENDED[^\n]* ok[^]*\n\d{4}-\d\d-\d\dT\d\d:\d\dZ +\d+ +\d+/)
    expect(await json('stats', '--step', '1h', '--since', '20h', '--tenant', 'demo')).toMatchObject({
      step_ms: 36e5,
      group_by: null,
      groups: [],
    })
  })

  it('caps set changes caps at once, and caps get shows their use', async () => {
    await untilWindowLasts(DAY_MS, 20_000)
    await run(['tenant', 'create', 'capped'])
    expect(await json('caps', 'set', 'capped', '--daily', '0')).toMatchObject({
      caps: { tenant_daily: 0 },
      usage: { tenant_daily: { used: 0, limit: 0 } },
    })
    const refused = await run(['run', '-', '-l', 'bash', '--tenant', 'capped', '--json'], 'true')
    expect(refused.status).toBe(1)
    expect(JSON.parse(refused.stdout)).toMatchObject({ ending: 'cap_exceeded', kill_switch: true })
    await run(['caps', 'set', 'capped', '--daily', 'default'])
    await run(['caps', 'set', 'capped', '--cpu-seconds', '600', '--cost', '2.5'])
    expect((await run(['caps', 'get', 'capped'])).stdout).toMatch(
      /CPU s, day +0 of 600 used, resets at .*\ncost, day +0 of 2\.5 used/,
    )
    await run(['caps', 'set', 'capped', '--cpu-seconds', 'default', '--cost', 'default'])
    const events = (await json('tenant', 'events', 'capped', '--limit', '1')) as { event_type: string }[]
    expect(events).toMatchObject([{ event_type: 'caps', before: { tenant_daily_cost: 2_500_000 } }])
    expect(await json('usage', 'capped')).toMatchObject({ group_by: 'day', total: { cost: 0 } })
    expect(await json('cancel', '--tenant', 'capped')).toEqual({ cancelled: 0, cancelling: 0 })
    expect((await run(['run', '-', '-l', 'bash', '--tenant', 'capped'], 'true')).status).toBe(0)
    expect(await json('caps', 'get', 'capped')).toMatchObject({
      usage: { tenant_daily: { used: 1, limit: 1000 } },
    })
  })

  it('audit lists the rows of a tenant and filters them by its flags', async () => {
    await run(['tenant', 'create', 'audited'])
    for (const code of [0, 1]) await run(['run', '-', '-l', 'bash', '--tenant', 'audited'], `exit ${code}`)
    expect(await json('audit', '--tenant', 'audited')).toMatchObject([
      { exit_status: 'error' },
      { exit_status: 'ok' },
    ])
    expect(await json('audit', '--tenant', 'audited', '--status', 'error', '--all')).toMatchObject([
      { exit_code: 1 },
    ])
    expect((await run(['audit', '--tenant', 'audited', '-n', '1'])).stderr).toContain('There are more')
    expect(await json('audit', '--tenant', 'audited', '--ending', 'oom')).toEqual([])
    expect(await json('audit', '--tenant', 'audited', '--until', '1h')).toEqual([])
    const rows = (await json('audit', '--tenant', 'audited', '--status', 'ok')) as Record<string, string>[]
    const { trace_id = '', executed_code_hash = '', backend = '' } = rows[0] ?? {}
    const same = [
      '--trace',
      trace_id,
      '--code-hash',
      executed_code_hash,
      '--backend',
      backend,
      '--since',
      '1h',
    ]
    expect(await json('audit', '--tenant', 'audited', ...same)).toEqual(rows)
    expect((await run(['audit', '--follow', '--all'])).status).toBe(2)
    const { execution_id = '' } = rows[0] ?? {}
    expect(await json('audit', execution_id)).toEqual(rows)
    expect((await run(['audit', execution_id])).stdout).toMatch(/^ {2}ending +ok$/m)
    expect((await run(['audit', execution_id, '--tenant', 'audited'])).status).toBe(2)
    const unknown = await run(['audit', execution_id.replace(/.{4}$/, '0000')])
    expect([unknown.status, unknown.stderr]).toEqual([1, expect.stringContaining('No audit row of exe_')])
  })

  it('audit --export writes rows as lines, and --resume completes an interrupted file', async () => {
    await run(['tenant', 'create', 'exported'])
    for (const code of [1, 2, 3])
      await run(['run', '-', '-l', 'bash', '--tenant', 'exported'], `exit ${code}`)
    const file = path.join(base, 'rows.ndjson')
    const all = await runProcess(['audit', '--tenant', 'exported', '--export', '-'])
    const lines = all.stdout.trim().split('\n')
    expect(lines.map((one) => JSON.parse(one).exit_code)).toEqual([3, 2, 1])
    expect(all.stderr).toContain('3 rows written.')
    writeFileSync(file, `${lines[0]}\n${lines[1]?.slice(0, 40)}`)
    expect((await run(['audit', '--tenant', 'exported', '--export', file])).status).toBe(2)
    const resumed = await run(['audit', '--tenant', 'exported', '--export', file, '--resume'])
    expect(resumed.stderr).toContain('2 rows written')
    expect(readFileSync(file, 'utf8')).toBe(all.stdout)
  })

  inLongTier('audit --follow prints each new row once, and continues after the last one', async () => {
    await run(['tenant', 'create', 'followed'])
    const code = (n: number) => run(['run', '-', '-l', 'bash', '--tenant', 'followed'], `exit ${n}`)
    await code(1)
    const cursor = ['--cursor-file', path.join(base, 'cursor')]
    const seen = (text: string): number[] =>
      text.split('\n').flatMap((one) => (one === '' ? [] : [JSON.parse(one).exit_code]))
    const following = start(['audit', '--tenant', 'followed', '--follow', '--json', ...cursor])
    await vi.waitFor(() => expect(seen(following.stdout)).toEqual([1]), STARTED_MS)
    await code(2)
    await vi.waitFor(() => expect(seen(following.stdout)).toEqual([1, 2]), 20_000)
    following.child.kill('SIGINT')
    expect((await following.ended).status).toBe(0)
    await code(3)
    const again = start(['audit', '--tenant', 'followed', '--follow', '--json', ...cursor])
    await vi.waitFor(() => expect(seen(again.stdout)).toEqual([3]), STARTED_MS)
    again.child.kill('SIGINT')
    expect((await again.ended).status).toBe(0)
  })

  it('tenant creates tenants and keys, and the key of a tenant reaches no other tenant', async () => {
    await run(['tenant', 'create', 'keyed', '--retention-days', '7'])
    expect(await json('tenant', 'show', 'keyed')).toMatchObject({
      policy: { retention_days: 7, min_isolation: 'jail' },
    })
    const key = (await run(['tenant', 'new-key', 'keyed'])).stdout.trim()
    expect(key).toMatch(/^cfd_[0-9a-f]{40}$/)
    const withKey = here({ COFFERDAM_API_KEY: key })
    expect((await runHere(['run', '-', '-l', 'bash', '--tenant', 'keyed'], withKey, 'true')).status).toBe(0)
    const own = await runHere(['tenant', 'show', 'keyed'], withKey)
    expect(own).toMatchObject({ status: 0, stdout: expect.stringContaining('shown to admin keys only') })
    for (const args of [
      ['tenant', 'list'],
      ['run', '-', '-l', 'bash', '--tenant', 'demo'],
    ]) {
      const { status, stderr } = await runHere(args, withKey, 'true')
      expect(status).toBe(1)
      expect(stderr).toContain('cofferdam: ')
    }
    const reader = (await run(['tenant', 'new-key', 'keyed', '--read-only'])).stdout.trim()
    const withReader = here({ COFFERDAM_API_KEY: reader })
    expect((await runHere(['tenant', 'show', 'keyed'], withReader)).status).toBe(0)
    const refused = await runHere(['run', '-', '-l', 'bash', '--tenant', 'keyed'], withReader, 'true')
    expect(refused).toMatchObject({ status: 1, stderr: expect.stringContaining('read-only') })
    const found = (await json('tenant', 'keys', 'keyed')) as { id: string; read_only: boolean }[]
    expect(found.map(({ read_only }) => read_only)).toEqual([true, false])
    const [, listed] = found
    await run(['tenant', 'revoke-key', 'keyed', listed?.id ?? ''])
    await vi.waitFor(async () => expect((await runHere(['caps', 'get', 'keyed'], withKey)).status).toBe(1), {
      timeout: 20_000,
    })
  })

  it('admin makes keys of the fleet, one that only reads too, and says who did it', async () => {
    const reader = (await run(['admin', 'new-key', '--read-only', '--label', 'wall'])).stdout.trim()
    expect(reader).toMatch(/^cfd_[0-9a-f]{40}$/)
    const withReader = here({ COFFERDAM_API_KEY: reader })
    const listed = await runHere(['admin', 'keys'], withReader)
    expect(listed).toMatchObject({ status: 0, stdout: expect.stringMatching(/ wall +read /) })
    const refused = await runHere(['admin', 'new-key'], withReader)
    expect(refused).toMatchObject({ status: 1, stderr: expect.stringContaining('read-only') })
    const found = (await json('admin', 'keys')) as { id: string; label: string; read_only: boolean }[]
    const wall = found.find(({ label }) => label === 'wall')
    const writer = found.find(({ read_only }) => !read_only)
    await run(['admin', 'revoke-key', wall?.id ?? ''])
    const events = await run(['admin', 'events', '--type', 'admin_key_revoked', '--limit', '1'])
    expect(events.stdout).toMatch(/ - +admin_key_revoked +key:\S+ +api .*"label":"wall"/)
    const last = await run(['admin', 'revoke-key', writer?.id ?? ''])
    expect(last).toMatchObject({ status: 1, stderr: expect.stringContaining('Make another one first') })
  })

  it('dashboard prints a link that signs in once, with the code where no log sees it', async () => {
    const { stdout, status } = await run(['dashboard'])
    expect(status).toBe(0)
    const link = new URL(stdout.trim())
    expect(link.origin).toBe(report.url)
    expect([link.pathname, link.search]).toEqual(['/', ''])
    const code = new URLSearchParams(link.hash.slice(1)).get('code')
    const signIn = () =>
      fetch(new URL('/ui/session', link), {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'sec-fetch-site': 'same-origin',
          'x-cofferdam-ui': '1',
        },
        body: JSON.stringify({ code }),
      })
    expect(await (await signIn()).json()).toMatchObject({ scope: 'admin', tenant_id: null })
    expect((await signIn()).status).toBe(401)
    expect(up.stderr + up.stdout).not.toContain(code ?? 'a code')
  })

  it('a command reports a malformed or unknown ID, a wrong or missing key, and a dead address', async () => {
    expect((await run(['status', 'exe_1'])).status).toBe(2)
    const unknown = await run(['status', 'exe_00000000000070008000000000000000', '--json'])
    expect(unknown.status).toBe(1)
    expect(JSON.parse(unknown.stderr)).toMatchObject({ error: { code: 'not_found' } })
    const badKey = await runHere(['audit'], here({ COFFERDAM_API_KEY: `cfd_${'0'.repeat(40)}` }))
    expect(badKey.status).toBe(1)
    const nobody = await run(['audit', '--url', 'http://127.0.0.1:9'])
    expect(nobody.status).toBe(1)
    expect(nobody.stderr).toContain('No API answers at http://127.0.0.1:9')
    const told = await run(['audit', '--url', 'http://127.0.0.1:9', '--json'])
    expect(JSON.parse(told.stderr)).toMatchObject({ error: { code: 'unreachable' } })
    // Without --url the command uses the address that `up` left in its data directory.
    expect((await runHere(['audit'], place())).status).toBe(0)
    const noKey = await runHere(['audit'], place({ COFFERDAM_DATA_DIR: path.join(base, 'nowhere') }))
    expect(noKey.status).toBe(2)
    expect(noKey.stderr).toContain('No API key')
  })

  inLongTier(
    'up drains and leaves no process on Ctrl-C, keeps its data, and removes it with --clean',
    async () => {
      const { stdout } = await run(['enqueue', '-', '-l', 'bash'], 'echo on; sleep 5; echo off')
      const id = stdout.trim()
      await vi.waitFor(async () => expect(await json('status', id)).toMatchObject({ status: 'running' }), {
        timeout: 30_000,
      })
      up.child.kill('SIGINT')
      const { status, stderr } = await up.ended
      expect(status).toBe(0)
      expect(stderr).toContain('Draining')
      expect(processesNaming(dataDir)).toEqual([])

      up = startCommand(['up', '--port', '0', '--json'], place())
      await vi.waitFor(() => (report = JSON.parse(up.stdout) as Report), { timeout: 110_000, interval: 100 })
      expect(await json('status', id)).toMatchObject({ status: 'ended', result: { stdout: 'on\noff\n' } })
      up.child.kill('SIGTERM')
      expect((await up.ended).status).toBe(0)

      const once = await runCommand(['up', '--once', '--clean', '--port', '0'], place())
      expect(once.status).toBe(0)
      expect(once.stdout).toContain('| Hello from Python')
      expect(processesNaming(dataDir)).toEqual([])
      up = startCommand(['up', '--port', '0', '--json'], place())
      await vi.waitFor(() => (report = JSON.parse(up.stdout) as Report), { timeout: 110_000, interval: 100 })
      expect((await run(['status', id])).status).toBe(1)
    },
  )
})
