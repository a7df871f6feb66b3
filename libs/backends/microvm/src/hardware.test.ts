import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { hardwareVirtualisation } from './hardware.ts'

const hosts: string[] = []
afterEach(() => {
  for (const host of hosts.splice(0)) rmSync(host, { recursive: true })
})

/** A host as its files tell. */
function hostWith(facts: { device?: boolean; flags?: string; module?: string }): string {
  const root = mkdtempSync(join(tmpdir(), 'cofferdam-host-'))
  hosts.push(root)
  for (const folder of ['dev', 'proc', 'sys/module']) mkdirSync(join(root, folder), { recursive: true })
  if (facts.device === true) writeFileSync(join(root, 'dev/kvm'), '')
  writeFileSync(join(root, 'proc/cpuinfo'), `processor\t: 0\nflags\t\t: ${facts.flags ?? 'fpu'} sse2\n`)
  if (facts.module !== undefined) mkdirSync(join(root, 'sys/module', facts.module))
  return root
}

it.each([
  ['no device', { flags: 'vmx' }, /has no \/dev\/kvm/],
  ['a device without a flag of the CPU', { device: true }, /no vmx or svm/],
  ['a flag whose name only begins like it', { device: true, flags: 'vmx_vnmi' }, /no vmx or svm/],
  ['a module without hardware', { device: true, flags: 'svm', module: 'kvm_pvm' }, /kvm_pvm/],
])('takes a host with %s for one without hardware', async (_what, facts, why) => {
  expect(await hardwareVirtualisation(hostWith(facts))).toEqual({
    ok: false,
    why: expect.stringMatching(why) as string,
  })
})

it.each(['vmx', 'svm'])('takes a host with a device and %s for one with hardware', async (flags) => {
  const found = await hardwareVirtualisation(hostWith({ device: true, flags, module: 'kvm_intel' }))
  expect(found).toMatchObject({ ok: true })
})
