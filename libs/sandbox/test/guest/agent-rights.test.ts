/** What the agent does where it is root, and where its network is down. Both need rights on this machine. */
import { chmodSync, mkdirSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Program } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openLab, PROGRAM_UID, stop, type Lab } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

/** Prints the program's user, and writes to its work directory. */
const WHOSE: Program = {
  type: 'script',
  language: 'python',
  source: "import os\nopen('made', 'w').write('x')\n[os.getuid(), sorted(os.listdir())]",
}

needs('root').describe('an agent that is root', () => {
  /** A folder of root in which other users can create nothing. */
  function rootsFolder(mode: number): string {
    const folder = join('/tmp', `cofferdam-root-${process.pid}-${mode}`)
    mkdirSync(folder)
    chmodSync(folder, mode)
    onTestFinished(() => rmSync(folder, { recursive: true }))
    return folder
  }

  test.each([
    ['that is not there yet', () => undefined],
    ['that another root made', (work: string) => mkdirSync(work)],
  ])('gives a work directory %s to the program’s user', async (_words, prepare) => {
    const work = join(rootsFolder(0o755), 'work')
    prepare(work)
    const { exit, stderr } = await lab.once(WHOSE, { work })
    expect([JSON.parse(exit.valueJson ?? 'null'), stderr]).toEqual([[PROGRAM_UID, ['made', 'main.py']], ''])
    expect(statSync(join(work, 'made')).uid).toBe(PROGRAM_UID)
  })

  test('runs programs as itself if no other user can reach the work directory', async () => {
    const work = join(rootsFolder(0o700), 'work')
    const { exit } = await lab.once(WHOSE, { work })
    expect(JSON.parse(exit.valueJson ?? 'null')).toEqual([0, ['made', 'main.py']])
  })

  test('changes no owner through a link in place of the work directory', async () => {
    const folder = rootsFolder(0o755)
    mkdirSync(join(folder, 'roots'))
    symlinkSync('roots', join(folder, 'work'))
    await expect(lab.once(WHOSE, { work: join(folder, 'work') })).rejects.toThrow()
    expect(statSync(join(folder, 'roots')).uid).toBe(0)
  })
})

// Whoever may mount may also create a network namespace (`unshare --net`).
needs('mounts').it('refuses a run that may connect if the loopback is down', async () => {
  const agent = await lab.start('none', { within: ['unshare', '--net'] })
  await expect(
    agent.run({ type: 'command', shell: 'touch ran' }, { onConnection: () => {} }),
  ).rejects.toMatchObject({
    code: 'sandbox_open_failed',
    details: { said: 'cannot listen on 127.0.0.1:3128: Network is unreachable' },
  })
  expect(await agent.session.list(['**'], 10)).toEqual([])
  await stop(agent)
})
