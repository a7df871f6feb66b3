/** Tests with real processes, observed in /proc. */
import { readdirSync, readFileSync } from 'node:fs'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { needs } from '@cofferdam/embedded/needs'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createStarter, type StartCommand, type StartedProcess, type Starter } from './starter.ts'

const asRoot = needs('root')
const PYTHON = '/usr/bin/python3'
/**
 * `answerMs` of these tests: how long a start waits for a helper that is stopped (SIGSTOP). A start takes 30
 * ms on an idle machine, but may need the whole time on a slow one.
 */
const PATIENCE_MS = 2000

function starter(): Starter {
  const made = createStarter(PYTHON)
  onTestFinished(() => made.close())
  return made
}

const sh = (script: string, change: Partial<StartCommand> = {}): StartCommand => ({
  argv: ['/bin/sh', '-c', script],
  env: {},
  user: null,
  ...change,
})

/** Exit code, and output on stdout, stderr and fd 3. */
async function ran(started: StartedProcess): Promise<unknown[]> {
  const { child, info } = started
  const said = Promise.all([text(child.stdout!), text(child.stderr!), text(info)])
  const isOver = child.exitCode !== null || child.signalCode !== null
  const [code, signal] = isOver ? [child.exitCode, child.signalCode] : await once(child, 'exit')
  return [code, signal, ...(await said)]
}

test('gives a process its arguments, environment, streams and folder, and no other open descriptor', async () => {
  const script =
    'read line; echo "$line $A $0 $1"; pwd; echo words >&2; echo news >&3; ls /proc/self/fd; exit 3'
  const started = await starter().start({
    argv: ['/bin/sh', '-c', script, 'zero', 'one two'],
    env: { A: 'b=c', PATH: '/usr/bin:/bin' },
    user: null,
  })
  started.child.stdin!.write('line\n')
  // 4 is the descriptor with which `ls` lists.
  expect(await ran(started)).toEqual([
    3,
    null,
    'line b=c zero one two\n/\n0\n1\n2\n3\n4\n',
    'words\n',
    'news\n',
  ])
})

test('starts a process with no signal ignored or blocked', async () => {
  const [, , said] = await ran(await starter().start(sh('/bin/grep -E "Sig(Blk|Ign)" /proc/self/status')))
  expect(said).toBe('SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n')
})

test('starts a process without the right to write a core file', async () => {
  const [, , said] = await ran(await starter().start(sh('ulimit -S -c; ulimit -H -c')))
  expect(said).toBe('0\n0\n')
})

asRoot.it('starts a process as another user without our groups', async () => {
  const user = { uid: 65_533, gid: 65_532 }
  const [, , said] = await ran(
    await starter().start(sh('/bin/grep -E "^(Uid|Gid|Groups)" /proc/self/status', { user })),
  )
  expect(said).toMatch(/^Uid:(\t65533){4}\nGid:(\t65532){4}\nGroups:\t\s*\n$/)
})

asRoot.it('hides mounts without needed files from the process, and changes no other mounts', async () => {
  const made = createStarter(PYTHON, ['/proc', '/dev/null', '/usr'])
  onTestFinished(() => made.close())
  const [, , said] = await ran(await made.start(sh('/bin/cat /proc/self/mountinfo')))
  const inside = mountPoints(String(said))
  expect(inside).toEqual(expect.arrayContaining(['/', '/proc']))
  expect(inside).not.toContain('/sys')
  expect(mountPoints(readFileSync('/proc/self/mountinfo', 'latin1'))).toContain('/sys')
})

asRoot.it('keeps the mount of a needed link that leads to another mount', async () => {
  const made = createStarter(PYTHON, ['/proc', '/usr', '/dev/fd'])
  onTestFinished(() => made.close())
  const [, , said] = await ran(await made.start(sh('/bin/cat /proc/self/mountinfo')))
  const inside = mountPoints(String(said))
  expect(inside).toContain('/dev')
  expect(inside).not.toContain('/sys')
})

const mountPoints = (mountinfo: string): (string | undefined)[] =>
  mountinfo.split('\n').map((line) => line.split(' ')[4])

test('reports a missing command with status 127, as a shell does', async () => {
  const [code, , , words] = await ran(await starter().start({ ...sh(''), argv: ['/no/such/thing'] }))
  expect([code, words]).toEqual([127, expect.stringContaining('No such file')])
})

test('kills what it started, and reports the signal', async () => {
  const { child } = await starter().start(sh('exec /bin/sleep 1000'))
  expect(child.kill('SIGKILL')).toBe(true)
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
  expect(() => process.kill(child.pid!, 0)).toThrow('ESRCH')
})

test('serves more processes than one helper has channels, and ends unused helpers', async () => {
  const before = helpers()
  const made = starter()
  for (let i = 0; i < 70; i++) expect((await ran(await made.start(sh('exit 0'))))[0]).toBe(0)
  await vi.waitFor(() => expect(helpers().length - before.length).toBe(1), 15_000)
  await made.close()
  expect(helpers()).toEqual(before)
})

test('gives each of many processes its own streams', async () => {
  const made = starter()
  const all = Array.from({ length: 40 }, async (_, i) => (await ran(await made.start(sh(`echo ${i}`))))[2])
  expect(await Promise.all(all)).toEqual(Array.from({ length: 40 }, (_, i) => `${i}\n`))
})

test('ends a dead helper’s processes, and starts another helper', async () => {
  const before = helpers()
  const made = starter()
  const { child } = await made.start(sh('exec /bin/sleep 1000'))
  onTestFinished(() => void process.kill(child.pid!, 'SIGKILL'))
  const ended = once(child, 'exit')
  for (const pid of helpers().filter((pid) => !before.includes(pid))) process.kill(pid, 'SIGKILL')
  expect(await ended).toEqual([null, 'SIGKILL'])
  expect((await ran(await made.start(sh('echo again'))))[2]).toBe('again\n')
})

test('gives a late helper no more starts, and ends it after the last of its processes', async () => {
  const before = helpers()
  const made = createStarter(PYTHON, [], PATIENCE_MS)
  onTestFinished(() => made.close())
  const { child } = await vi.waitFor(() => made.start(sh('exec /bin/sleep 1000')), 15_000)
  const late = helpers().filter((pid) => !before.includes(pid))
  for (const pid of late) process.kill(pid, 'SIGSTOP')
  await expect(made.start(sh('exec /bin/sleep 1000'))).rejects.toThrow('does not answer')
  await vi.waitFor(
    async () => expect((await ran(await made.start(sh('echo next'))))[2]).toBe('next\n'),
    15_000,
  )
  for (const pid of late) process.kill(pid, 'SIGCONT')
  expect(child.signalCode).toBe(null)
  process.kill(child.pid!, 0)
  // The helper has also killed the process of the start that was given up. If that process lived, the helper
  // would stay.
  child.kill('SIGKILL')
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
  await vi.waitFor(() => expect(helpers().filter((pid) => late.includes(pid))).toEqual([]), 15_000)
})

test('kills a hanging helper when the starter is closed', async () => {
  const made = createStarter(PYTHON, [], PATIENCE_MS)
  onTestFinished(() => made.close())
  const { child } = await vi.waitFor(() => made.start(sh('exec /bin/sleep 1000')), 15_000)
  onTestFinished(() => void process.kill(child.pid!, 'SIGKILL'))
  const [, helper] = /^PPid:\s(\d+)$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'latin1'))!
  process.kill(Number(helper), 'SIGSTOP')
  await expect(made.start(sh('exec /bin/sleep 1000'))).rejects.toThrow('does not answer')
  await made.close()
  expect(child.signalCode).toBe('SIGKILL')
  expect(helpers()).not.toContain(Number(helper))
})

/** Starters among the children of this process. */
function helpers(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const [stat, command] = ['stat', 'cmdline'].map((file) =>
          readFileSync(`/proc/${name}/${file}`, 'latin1'),
        )
        const parent = Number(stat!.slice(stat!.lastIndexOf(')') + 2).split(' ')[1])
        return parent === process.pid && command!.includes('starter.py')
      } catch {
        return false
      }
    })
    .map(Number)
}
