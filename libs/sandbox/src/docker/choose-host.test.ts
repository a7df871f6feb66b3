import { expect, test } from 'vitest'
import { SILENT } from '../deps.ts'
import { automaticRuntime, createHostChoice } from './choose-host.ts'
import { dockerConfigSchema, type DockerConfig } from './config.ts'
import { connectDaemon } from './daemon.ts'

const choice = async (change: Partial<DockerConfig> = {}): Promise<ReturnType<typeof createHostChoice>> => {
  const config = dockerConfigSchema.parse({ host: '/nonexistent/docker.sock', ...change })
  return createHostChoice(await connectDaemon(config), config, SILENT)
}

test('prefers crun, but not beside AppArmor, and leaves all else to the daemon', () => {
  const Runtimes = { runc: {}, crun: {}, runsc: {} }
  const SecurityOptions = ['name=seccomp,profile=builtin']
  expect(automaticRuntime({ Runtimes, SecurityOptions })).toBe('crun')
  expect(automaticRuntime({ Runtimes })).toBe('crun')
  expect(automaticRuntime({ Runtimes, SecurityOptions: ['name=apparmor', ...SecurityOptions] })).toBeNull()
  expect(automaticRuntime({ Runtimes: { runc: {}, runsc: {} }, SecurityOptions })).toBeNull()
})

test('tries the socket first, and stays with what worked', async () => {
  const host = await choice()
  expect(host.transport).toEqual({ use: 'socket', isProven: false })
  host.socketWorks()
  // One container that fails later is no reason to leave it.
  host.socketFails('refused')
  expect(host.transport).toEqual({ use: 'socket', isProven: true })
})

test('falls back to the attach stream where the first sandbox did not reach the socket', async () => {
  const host = await choice()
  host.socketFails('refused')
  expect(host.transport).toEqual({ use: 'attach', isProven: true })
})

test.each([
  ['gVisor, which closes host sockets', { runtime: 'runsc' }],
  ['Kata, which is another machine', { runtime: 'io.containerd.kata.v2' }],
  ['a setting', { transport: 'attach' as const }],
])('uses the attach stream alone for %s', async (_why, change) => {
  expect((await choice(change)).transport).toEqual({ use: 'attach', isProven: true })
})

test('a socket that the settings demand is not given up', async () => {
  const host = await choice({ transport: 'socket' })
  host.socketFails('refused')
  expect(host.transport).toEqual({ use: 'socket', isProven: false })
})

test('gives up a runtime that it chose itself, for every start that failed on it, and none that was named', async () => {
  const host = await choice()
  expect([host.runtimeFails('crun', 'no'), host.runtimeFails('crun', 'no')]).toEqual([true, true])
  expect(host.runtimeFails(null, 'no')).toBe(false)
  expect((await choice({ runtime: 'crun' })).runtimeFails('crun', 'no')).toBe(false)
})
