/**
 * Puts the double’s `firecracker` and `jailer` into a folder, as programs that can be started in their place.
 */
import { accessSync, chmodSync, constants, existsSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DoubleConfig } from './faults.ts'

export interface InstalledDouble {
  firecracker: string
  jailer: string
  /**
   * Whether a VMM runs as the user of its jail. False with `machines`, and where other users cannot enter the
   * folders of these sources, of Node.js or of the double.
   */
  dropsUser: boolean
  /** Sets the failures of programs that start from now on. Replaces those set before. */
  setFaults(faults: Partial<DoubleConfig['faults']>): void
  /** File with one line of JSON per call that has no fault. */
  record: string
}

const NO_FAULTS = { api: {}, vsock: null, jailer: null, mute: false }

/** `folder` exists. `agent`: the command of the guest agent. */
export function installDouble(
  folder: string,
  options: Partial<Pick<DoubleConfig, 'version' | 'agent' | 'bootMs' | 'needsControllers' | 'machines'>> = {},
): InstalledDouble {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const here = (name: string): string => fileURLToPath(new URL(`${name}.${extension}`, import.meta.url))
  const configPath = join(folder, 'double.json')
  const record = join(folder, 'calls.jsonl')
  const agent = fileURLToPath(new URL('../../../libs/sandbox/agent/agent.py', import.meta.url))
  const config: DoubleConfig = {
    version: '1.16.1',
    needsControllers: false,
    // A machine of QEMU opens the memory for writing, which only root may.
    dropsUser:
      options.machines == null && [process.execPath, here('firecracker-main'), configPath].every(isForOthers),
    node: process.execPath,
    main: here('firecracker-main'),
    agent: [existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3', '-I', '-S', agent],
    bootMs: 50,
    machines: null,
    record,
    ...options,
    faults: NO_FAULTS,
  }
  const write = (faults: DoubleConfig['faults']): void =>
    writeFileSync(configPath, JSON.stringify({ ...config, faults }, null, 2), { mode: 0o644 })
  const program = (name: string): string => {
    const path = join(folder, name)
    const quoted = [process.execPath, here(`${name}-main`), configPath].map((word) => `'${word}'`)
    writeFileSync(path, `#!/bin/sh\nexec ${quoted.join(' ')} "$@"\n`, { mode: 0o755 })
    return path
  }
  write(NO_FAULTS)
  writeFileSync(record, '', { mode: 0o666 })
  chmodSync(record, 0o666)
  return {
    firecracker: program('firecracker'),
    jailer: program('jailer'),
    dropsUser: config.dropsUser,
    setFaults: (faults) => write({ ...NO_FAULTS, ...faults }),
    record,
  }
}

/** Whether any user can enter all folders above a path. */
function isForOthers(path: string): boolean {
  try {
    accessSync(dirname(path), constants.X_OK)
    for (let at = dirname(path); ; at = dirname(at)) {
      if ((statSync(at).mode & 0o001) === 0) return false
      if (at === '/') return true
    }
  } catch {
    return false
  }
}
