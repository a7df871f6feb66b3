import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { findHardwareVirtualisation } from './hardware-virtualisation.ts'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'cofferdam-host-'))
  for (const folder of ['proc', 'sys/module', 'dev']) await mkdir(join(root, folder), { recursive: true })
})
afterEach(() => rm(root, { recursive: true }))

const cpu = (flags: string): Promise<void> =>
  writeFile(join(root, 'proc/cpuinfo'), `processor\t: 0\nflags\t\t: fpu ${flags} sse2\nbugs\t: vmx\n`)

test.each(['vmx', 'svm'])('sees hardware in the flag %s with /dev/kvm', async (flag) => {
  await cpu(flag)
  await writeFile(join(root, 'dev/kvm'), '')
  expect(await findHardwareVirtualisation(root)).toEqual({ hardware: true, why: null, fix: null })
})

test('does not take /dev/kvm, or a part of a word, for the processor', async () => {
  await cpu('vmx_ept asvm')
  await writeFile(join(root, 'dev/kvm'), '')
  expect(await findHardwareVirtualisation(root)).toMatchObject({
    hardware: false,
    why: expect.stringContaining('neither vmx nor svm'),
  })
})

test('refuses a module that needs no processor, a missing device, and a host that says nothing', async () => {
  expect((await findHardwareVirtualisation(root)).hardware).toBe(false)
  await cpu('svm')
  expect((await findHardwareVirtualisation(root)).why).toContain('ENOENT')
  await writeFile(join(root, 'dev/kvm'), '')
  await mkdir(join(root, 'sys/module/kvm_pvm'))
  expect((await findHardwareVirtualisation(root)).why).toContain('kvm_pvm')
})
