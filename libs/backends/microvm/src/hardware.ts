/** Whether this host virtualises in hardware. Only then may a machine be called `microvm`. */
import { constants, existsSync } from 'node:fs'
import { access, readFile, stat } from 'node:fs/promises'

export type Hardware = { ok: true; /** Group of /dev/kvm. */ gid: number } | { ok: false; why: string }

/**
 * `/dev/kvm` alone proves nothing: a module without hardware below it (kvm_pvm) offers it too. `root` stands
 * for `/` in tests.
 */
export async function hardwareVirtualisation(root = ''): Promise<Hardware> {
  const device = `${root}/dev/kvm`
  const found = await stat(device).catch(() => null)
  if (found === null) return { ok: false, why: 'this host has no /dev/kvm' }
  const opens = await access(device, constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  )
  if (!opens) return { ok: false, why: 'this user may not open /dev/kvm' }
  const info = await readFile(`${root}/proc/cpuinfo`, 'utf8').catch(() => '')
  if (!/^flags\s*:.*\b(?:vmx|svm)\b/m.test(info))
    return { ok: false, why: 'this host has /dev/kvm, but no hardware below it (no vmx or svm)' }
  if (existsSync(`${root}/sys/module/kvm_pvm`))
    return { ok: false, why: 'this host has /dev/kvm by the module kvm_pvm, without hardware' }
  return { ok: true, gid: found.gid }
}
