/** How our agent runs in a sandbox of E2B: what is uploaded, and what is started. */
import { readFileSync } from 'node:fs'
import { SURROUNDINGS } from '@cofferdam/contract'
import { COMPILER, agentArgv, agentOptions, guestFiles } from '@cofferdam/sandbox/guest'
import { inodesOf, JAIL_SCRIPT, seccompFilter } from '@cofferdam/sandbox/backend'
import { mayRunNode, type SlotSpec } from '@cofferdam/sandbox/warm'
import type { E2bConfig } from './config.ts'

/** Where the agent's files go; the home of E2B's default user. */
const GUEST = '/home/user/.cofferdam'
const WORK = SURROUNDINGS.workFolder
const MiB = 1024 * 1024
const IN_JAIL = new URL('in-jail.py', import.meta.url)

export interface AgentFile {
  path: string
  bytes: Uint8Array
}

/** `isJailed`: for an agent that proves between turns that files alone are left. */
export function agentFiles(spec: SlotSpec, isJailed: boolean): AgentFile[] {
  const files = guestFiles()
    // What transforms TypeScript: 3.8 of 4.0 MB, which every sandbox would wait for.
    .filter(({ name }) => name !== COMPILER && (mayRunNode(spec) || name !== 'node-gate/amaro.cjs'))
    .map(({ name, source }) => inGuest(name, readFileSync(source)))
  if (!isJailed) return files
  return [
    ...files,
    inGuest('jail.py', readFileSync(JAIL_SCRIPT)),
    inGuest('in-jail.py', readFileSync(IN_JAIL)),
    // By what uname calls the machine there, which need not be this one's kind.
    inGuest('x86_64.bpf', seccompFilter('x64', false)),
    inGuest('aarch64.bpf', seccompFilter('arm64', false)),
  ]
}

const inGuest = (name: string, bytes: Uint8Array): AgentFile => ({ path: `${GUEST}/${name}`, bytes })

/** Command and arguments. */
export function agentCommand(config: E2bConfig, spec: SlotSpec, isJailed: boolean): string[] {
  const { python, node } = config
  const { language, preload, cell, limits } = spec
  const disk = limits.disk_mib * MiB
  const shared = { python, node, language, preload, cell, work: WORK }
  if (isJailed) {
    const options = agentOptions({ ...shared, ownDisk: true })
    const sizes = [disk, inodesOf(limits.disk_mib), SURROUNDINGS.shmBytes].map(String)
    const jail = [`${GUEST}/in-jail.py`, `${GUEST}/jail.py`, ...sizes]
    return [python, '-I', '-S', ...jail, ...options]
  }
  return agentArgv({
    ...shared,
    guestDir: GUEST,
    // Not `confined`: all that a signal could reach is inside the machine, which is the program's own, but envd is in it as well.
    scope: true,
    env: { HOME: '/home/user', TMPDIR: '/tmp' },
    rlimits: { fsize: disk },
  })
}
