/** How our agent runs in a sandbox of E2B: its files and its command. */
import { readFileSync } from 'node:fs'
import { SURROUNDINGS } from '@cofferdam/contract'
import { COMPILER, agentArgv, agentOptions, guestFiles } from '@cofferdam/sandbox/guest'
import { inodesOf, JAIL_SCRIPT, seccompFilter } from '@cofferdam/sandbox/backend'
import { mayRunNode, type SlotSpec } from '@cofferdam/sandbox/warm'
import type { E2bConfig } from './config.ts'

/** Folder of the agent's files, in the home of E2B's default user. */
const GUEST = '/home/user/.cofferdam'
const WORK = SURROUNDINGS.workFolder
const MiB = 1024 * 1024
const IN_JAIL = new URL('in-jail.py', import.meta.url)

export interface AgentFile {
  path: string
  bytes: Uint8Array
}

/**
 * `isJailed`: the agent runs in a jail of ours, because it must prove between turns that only files are left.
 */
export function agentFiles(spec: SlotSpec, isJailed: boolean): AgentFile[] {
  const files = guestFiles()
    // Without COMPILER, amaro.cjs is 3.8 of 4.0 MB, so it is uploaded only for programs that may need it.
    .filter(({ name }) => name !== COMPILER && (mayRunNode(spec) || name !== 'node-gate/amaro.cjs'))
    .map(({ name, source }) => inGuest(name, readFileSync(source)))
  if (!isJailed) return files
  return [
    ...files,
    inGuest('jail.py', readFileSync(JAIL_SCRIPT)),
    inGuest('in-jail.py', readFileSync(IN_JAIL)),
    // One filter for each CPU type: the sandbox picks by its own `uname`, which may differ from this
    // machine's.
    inGuest('x86_64.bpf', seccompFilter('x64', false)),
    inGuest('aarch64.bpf', seccompFilter('arm64', false)),
  ]
}

const inGuest = (name: string, bytes: Uint8Array): AgentFile => ({ path: `${GUEST}/${name}`, bytes })

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
    // Keeps the program from sending signals to envd, which runs in the same machine. `confined` stays unset,
    // because nothing keeps the agent's own kill(-1) from reaching envd.
    scope: true,
    env: { HOME: '/home/user', TMPDIR: '/tmp' },
    rlimits: { fsize: disk },
  })
}
