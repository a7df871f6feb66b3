/** Creates the engine that the settings name, and tells which folder has its templates and records. */
import { join } from 'node:path'
import { defaultRuntimeDir } from '@cofferdam/sandbox/backend'
import type { MicrovmConfig } from './config.ts'
import type { MicrovmEngine } from './engine.ts'
import { createFirecrackerEngine } from './firecracker/index.ts'
import { settingsOf } from './firecracker/settings.ts'
import { createQemuEngine } from './qemu/index.ts'

/** Starts nothing. */
export async function createEngine(settings: MicrovmConfig): Promise<MicrovmEngine> {
  const { accelerator, qemu, uid, firecracker } = settings
  switch (settings.engine) {
    case 'qemu':
      return await createQemuEngine({ binary: qemu, accelerator, uid })
    case 'firecracker':
      return await createFirecrackerEngine(settingsOf(firecracker), { double: firecracker.double })
  }
}

/** Templates of Firecracker are on the file system of its jails, which have hard links to them. */
export const runtimeDirOf = ({ runtime_dir, engine, firecracker }: MicrovmConfig): string =>
  runtime_dir ?? (engine === 'firecracker' ? join(firecracker.chroot_base, 'state') : defaultRuntimeDir())
