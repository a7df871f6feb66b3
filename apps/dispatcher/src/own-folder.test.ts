import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { openOwnFolder } from './own-folder.ts'

const SOURCE = fileURLToPath(new URL('own-folder.ts', import.meta.url))
let shared = ''

beforeEach(async () => {
  shared = await mkdtemp(join(tmpdir(), 'own-folder-'))
  vi.stubEnv('TMPDIR', shared)
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(shared, { recursive: true, force: true })
})

/** A process with a folder, and a file in it. */
async function startOther() {
  const code = `
    const { openOwnFolder } = await import(${JSON.stringify(SOURCE)})
    const { path } = await openOwnFolder()
    process.stdout.write(path)
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [said] = (await once(child.stdout, 'data')) as [Buffer]
  const path = said.toString()
  await mkdir(join(path, 'session-1'))
  await writeFile(join(path, 'session-1', 'memory.md'), 'what an agent remembers')
  return {
    path,
    async kill() {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

it('is removed when it is disposed', async () => {
  const own = await openOwnFolder()
  await writeFile(join(own.path, 'skill.md'), 'a skill')
  await own[Symbol.asyncDispose]()
  expect(existsSync(own.path)).toBe(false)
})

it('of a killed dispatcher is removed by the next one, and that of a running one is not', async () => {
  const [killed, running] = await Promise.all([startOther(), startOther()])
  try {
    await killed.kill()
    await using own = await openOwnFolder()
    expect([killed.path, running.path, own.path].map((path) => existsSync(path))).toEqual([false, true, true])
  } finally {
    await running.kill()
  }
})

it('is not removed while it is made, and no link is followed', async () => {
  const made = join(shared, 'cofferdam-dispatcher-new')
  await mkdir(made)
  const killed = await startOther()
  await killed.kill()
  const elsewhere = await mkdtemp(join(shared, 'elsewhere-'))
  await writeFile(join(elsewhere, 'kept'), '')
  await symlink(elsewhere, join(killed.path, 'session-1', 'link'))
  await symlink(killed.path, join(shared, 'cofferdam-dispatcher-link'))
  await using _own = await openOwnFolder()
  expect(existsSync(made)).toBe(true)
  expect(existsSync(killed.path)).toBe(false)
  expect(existsSync(join(elsewhere, 'kept'))).toBe(true)
})
