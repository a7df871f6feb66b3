import { expect, test } from 'vitest'
import { SILENT } from '../deps.ts'
import { automaticRuntime, createHostChoice } from './choose-host.ts'
import { dockerConfigSchema, type DockerConfig } from './config.ts'
import { connectDaemon } from './daemon.ts'

const choice = async (change: Partial<DockerConfig> = {}): Promise<ReturnType<typeof createHostChoice>> => {
  const config = dockerConfigSchema.parse({ host: '/nonexistent/docker.sock', ...change })
  return createHostChoice(await connectDaemon(config), config, SILENT)
}

test('prefers crun without AppArmor, and otherwise the daemon’s default', () => {
  const Runtimes = { runc: {}, crun: {}, runsc: {} }
  const SecurityOptions = ['name=seccomp,profile=builtin']
  expect(automaticRuntime({ Runtimes, SecurityOptions })).toBe('crun')
  expect(automaticRuntime({ Runtimes })).toBe('crun')
  expect(automaticRuntime({ Runtimes, SecurityOptions: ['name=apparmor', ...SecurityOptions] })).toBeNull()
  expect(automaticRuntime({ Runtimes: { runc: {}, runsc: {} }, SecurityOptions })).toBeNull()
})

test('tries the socket first, and keeps the transport that worked', async () => {
  const host = await choice()
  expect(host.transport).toEqual({ use: 'socket', isProven: false })
  host.socketWorks()
  // After a success, one failed container does not change the transport.
  host.socketFails('refused')
  expect(host.transport).toEqual({ use: 'socket', isProven: true })
})

test('falls back to the attach stream if the first sandbox did not reach the socket', async () => {
  const host = await choice()
  host.socketFails('refused')
  expect(host.transport).toEqual({ use: 'attach', isProven: true })
})

test.each([
  ['gVisor, which closes host sockets', { runtime: 'runsc' }],
  ['Kata, which is another machine', { runtime: 'io.containerd.kata.v2' }],
  ['a setting', { transport: 'attach' as const }],
])('uses only the attach stream for %s', async (_why, change) => {
  expect((await choice(change)).transport).toEqual({ use: 'attach', isProven: true })
})

test('keeps using the socket if the settings demand it', async () => {
  const host = await choice({ transport: 'socket' })
  host.socketFails('refused')
  expect(host.transport).toEqual({ use: 'socket', isProven: false })
})

test('replaces an automatically chosen runtime that fails, but never a configured one', async () => {
  const host = await choice()
  expect([host.runtimeFails('crun', 'no'), host.runtimeFails('crun', 'no')]).toEqual([true, true])
  expect(host.runtimeFails(null, 'no')).toBe(false)
  expect((await choice({ runtime: 'crun' })).runtimeFails('crun', 'no')).toBe(false)
})
