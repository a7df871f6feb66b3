/**
 * Whether this host's processor separates its virtual machines. /dev/kvm alone does not prove that: the
 * module kvm_pvm offers it without help from the processor. Such machines count as emulated.
 */
import { open, readFile, stat } from 'node:fs/promises'
import { constants } from 'node:fs'
import { join } from 'node:path'

export interface HardwareVirtualisation {
  hardware: boolean
  /** The first requirement that is missing. Null if `hardware` is true. */
  why: string | null
  fix: string | null
}

/** Looks at this host. `root` is where its /proc, /sys and /dev are (tests name a folder of their own). */
export async function findHardwareVirtualisation(root = '/'): Promise<HardwareVirtualisation> {
  const no = (why: string, fix: string): HardwareVirtualisation => ({ hardware: false, why, fix })
  const cpu = await readFile(join(root, 'proc/cpuinfo'), 'latin1').catch(() => '')
  if (!/^flags\s*:.*\b(vmx|svm)\b/m.test(cpu))
    return no(
      'The processor offers no virtualisation (neither vmx nor svm in /proc/cpuinfo).',
      'Use a host of bare metal, or switch nested virtualisation on where this machine is a guest.',
    )
  if (await exists(join(root, 'sys/module/kvm_pvm')))
    return no(
      'KVM is the module kvm_pvm, which works without the processor.',
      'Load kvm_intel or kvm_amd in its place.',
    )
  try {
    await (await open(join(root, 'dev/kvm'), constants.O_RDWR)).close()
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'
    return no(
      `/dev/kvm cannot be opened (${code}).`,
      code === 'ENOENT'
        ? 'Load kvm_intel or kvm_amd.'
        : 'Let the worker use it: add its user to the group kvm, and give a container the device.',
    )
  }
  return { hardware: true, why: null, fix: null }
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )
