/**
 * A program in an interpreter pool has the same user as the code that counts its runs. Whatever it does and
 * whatever happens to the answer, it runs once.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { callJail } from '../double/exchange.ts'
import { NO_FAULTS } from '../double/faults.ts'
import { createAzureBackend } from '../src/index.ts'
import { descendants } from '@cofferdam/sandbox/conformance'
import { startAzurePlaces, type AzurePlaces } from './places.ts'
import { jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const FLEET = 'd7d7d7d7d7d7'

const COUNTS = `
import base64, glob, json, os
open('/mnt/data/runs', 'a').write('x')
`
/** Removes all our files except the scripts and the socket, which the worker still needs to get an answer. */
const REMOVES = `${COUNTS}
for path in glob.glob('/mnt/data/cofd-*/*'):
    if os.path.isfile(path) and not path.endswith('.py'): os.unlink(path)
print('once')
`
/** Makes our folders read-only, so that no file can be created there, as on a full disk. */
const LOCKS = `${COUNTS}
for path in glob.glob('/mnt/data/cofd-*/'): os.chmod(path, 0o555)
print('once')
`
/**
 * Forges the secret of its permit (permit.ts). A program can read the permit in the command line of our
 * in-session.py.
 */
const FORGES = `${COUNTS}
for path in glob.glob('/proc/[0-9]*/cmdline'):
    try: permit = json.loads(base64.b64decode(open(path).read().split(chr(0))[-2]))['permit']
    except Exception: continue
    for folder in glob.glob('/mnt/data/cofd-*/'):
        open(folder + 'permit-' + permit, 'w').write('0' * 64)
        open('/mnt/data/forged', 'w').write('y')
print('once')
`

/** Processes whose command line matches: among the given ones, or all on this host. */
function pidsOf(isMeant: (words: string) => boolean, among?: readonly number[]): number[] {
  const all =
    among ??
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
  return all.filter((pid) => {
    try {
      return isMeant(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))
    } catch {
      return false
    }
  })
}

needs('bwrap').describe('azure interpreter pool: a program that would run twice', () => {
  let places: AzurePlaces
  beforeAll(async () => {
    places = await startAzurePlaces()
  })
  afterEach(() => places.double.fault(NO_FAULTS))
  afterAll(() => places[Symbol.asyncDispose]())

  async function socket(): Promise<string> {
    const [session] = await places.double.pool('python').list()
    return session?.jail.socket ?? ''
  }
  async function lies(file: string): Promise<string> {
    const { body } = await callJail(await socket(), 'GET', `/file?path=&name=${file}`)
    return body.toString()
  }

  /** Kills the service's own interpreter, as if its session were out of memory. */
  async function endKernel(): Promise<void> {
    const home = dirname(await socket())
    const jail = pidsOf((words) => words.startsWith('bwrap') && words.includes(home))
    const [kernel = Number.NaN] = pidsOf((words) => words.includes('contextlib'), jail.flatMap(descendants))
    process.kill(kernel, 'SIGKILL')
  }

  it.each([
    ['removes what tells that it began, and whose answer is lost', REMOVES, { drop_after: 1 }],
    ['removes what tells that it began, and whose request is delivered twice', REMOVES, { twice: 1 }],
    ['forges what allows it to begin, and whose request is delivered twice', FORGES, { twice: 1 }],
  ])('runs once if it %s', async (_words, source, fault) => {
    const program = python(source)
    await using sandbox = await createAzureBackend(places.settings('python')).open(
      jobSpec(FLEET, program),
      AbortSignal.timeout(30_000),
    )
    await sandbox.list(['*'], 1)
    places.double.fault({ ...fault, drop_path: '/executions' })
    expect(await printed(sandbox, program)).toBe('once\n')
    expect(await lies('runs')).toBe('x')
  })

  it('is reported even if nothing can be written after it', async () => {
    const program = python(LOCKS)
    await using sandbox = await createAzureBackend(places.settings('python')).open(
      jobSpec(FLEET, program),
      AbortSignal.timeout(30_000),
    )
    expect(await printed(sandbox, program)).toBe('once\n')
    // Restore the write permission, because the double removes the session's files as this user.
    const unlocks = Buffer.from(JSON.stringify({ shell: 'chmod 755 /mnt/data/cofd-*', seconds: 20 }))
    await callJail(await socket(), 'POST', '/execute', unlocks)
  })

  it('still has its files collected after the service ended its execution', async () => {
    const program = python("open('note', 'w').write('kept')\nimport time; time.sleep(600)")
    await using sandbox = await createAzureBackend(places.settings('python')).open(
      jobSpec(FLEET, program),
      AbortSignal.timeout(30_000),
    )
    const ended = sandbox.run(program, {
      onOutput: () => undefined,
      maxOutputBytes: { stdout: 100, stderr: 100 },
      signal: AbortSignal.timeout(100_000),
    })
    await vi.waitFor(async () => expect(await lies('work/note')).toBe('kept'), 60_000)
    await endKernel()
    expect(await ended).toMatchObject({ oomKills: 1 })
    expect(Buffer.from(await sandbox.read('note', 10)).toString()).toBe('kept')
  })

  it('is lost and does not run again if it forges the proof that it did not begin', async () => {
    const program = python(FORGES)
    await using sandbox = await createAzureBackend(places.settings('python')).open(
      jobSpec(FLEET, program),
      AbortSignal.timeout(30_000),
    )
    await sandbox.list(['*'], 1)
    places.double.fault({ drop_after: 1, drop_path: '/executions' })
    await expect(printed(sandbox, program)).rejects.toMatchObject({ code: 'sandbox_lost' })
    expect([await lies('runs'), await lies('forged')]).toEqual(['x', 'y'])
  })
})
