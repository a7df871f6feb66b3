/** `cofferdam double` prints everything that a worker needs, and reports arguments that it does not know. */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { runHere } from '../../apps/cli/test/command-here.ts'
import { start, type Running } from '../../apps/cli/test/command-process.ts'

const withBwrap = needs('bwrap')
const page = readFileSync(new URL('../../docs/remote-backends.md', import.meta.url), 'utf8')
const here = { cwd: import.meta.dirname, env: {} }

withBwrap.describe('cofferdam double', () => {
  let fleet: Fleet
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-double-test-'))
  beforeAll(async () => {
    fleet = await startFleet()
    await fleet.createTenant('acme', { caps: { tenant_daily: 100, agent_hourly: 100 } })
  })
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  it.each([
    [['agentcore']],
    [['azure']],
    [['e2b']],
    [['kubernetes']],
    [['kubernetes', '--runtime', 'sandboxd']],
  ])('what %j prints is in the docs, and a worker with these settings runs programs there', async (words) => {
    const [backend = ''] = words
    const double = start(['double', ...words], { cwd: folder, env: {} })
    try {
      const pasted = await printed(double)
      if (words.length === 1) expect(general(page)).toContain(general(pasted))
      const files = [...pasted.matchAll(/"(\/[^"]+\/cofferdam-double-keys-[^"]+)"/g)].map(
        ([, file = '']) => file,
      )
      for (const file of files) expect(statSync(file).mode & 0o777, file).toBe(0o600)
      const config = join(folder, `${words.join('')}.yaml`)
      writeFileSync(config, pasted)
      const worker = await fleet.startWorker({ COFFERDAM_CONFIG: config })
      const program = { type: 'script', language: 'python', source: 'print(6 * 7)' } as const
      const result = await fleet.client.run(
        { tenant_id: 'acme', agent_id: 'a', backend, program },
        { timeoutMs: 60_000 },
      )
      expect(result).toMatchObject({ ok: true, stdout: '42\n' })
      expect(await worker.stop()).toBe(0)
      double.child.kill('SIGTERM')
      await double.ended
      for (const file of files) expect(existsSync(dirname(file)), file).toBe(false)
    } finally {
      double.child.kill('SIGTERM')
      await double.ended
    }
  })

  it('prints only one JSON line with --json', async () => {
    const double = start(['double', 'e2b', '--json'], { cwd: folder, env: {} })
    await vi.waitFor(() => expect(double.stdout).toContain('\n'), { timeout: 60_000, interval: 50 })
    double.child.kill('SIGTERM')
    const { stdout } = await double.ended
    expect(JSON.parse(stdout)).toMatchObject({ double: 'e2b' })
  })
})

it.each([
  [['e2b', '--port', '99999'], '--port expects a whole number from 0 to 65535'],
  [['e2b', '--runtime', 'sandboxd'], 'The double of e2b takes no --runtime.'],
  [['kubernetes', '--runtime', 'nothing'], '--runtime expects cofferdam, sandboxd'],
  [['pypi'], 'The double of pypi needs --dir.'],
  [['constructor'], 'There is no double of "constructor".'],
])('refuses %j before anything is started', async (words, message) => {
  const { status, stderr } = await runHere(['double', ...words], here)
  expect(status).toBe(2)
  expect(stderr).toContain(message)
})

/** Everything after the line with the address, once the last line was printed. */
async function printed(double: Running): Promise<string> {
  await vi.waitFor(() => expect(double.stdout).toMatch(/ run .* --backend \w+\n$/), {
    timeout: 60_000,
    interval: 50,
  })
  return double.stdout.slice(double.stdout.indexOf('\n') + 1)
}

/** The text without comments, ports and folder name, which differ each time. */
const general = (text: string): string =>
  text
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1:PORT')
    .replaceAll(/"[^"]*\/cofferdam-double-keys-[^/]+/g, '"FOLDER')
