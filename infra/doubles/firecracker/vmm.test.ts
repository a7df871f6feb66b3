/**
 * Tests each rule of the double with calls in any order: which calls are accepted, and that the others get
 * the documented refusal.
 */
import { expect, test } from 'vitest'
import { FAULTS, PAYLOAD_BYTES } from './rules.ts'
import { createVmm, type MachineConfig, type Underneath, type Vmm } from './vmm.ts'

const machineOf = (over: Partial<MachineConfig> = {}): MachineConfig => ({
  version: '1.16.1',
  vcpus: 1,
  memoryMib: 128,
  drives: [{ drive_id: 'rootfs', path_on_host: '/rootfs', is_root_device: false }],
  vsockPath: 'v.sock',
  kernel: '/kernel',
  bootArgs: '',
  ...over,
})

function fresh(over: Partial<Underneath> = {}): { vmm: Vmm; bound: string[]; did: string[] } {
  const bound: string[] = []
  const did: string[] = []
  const underneath: Underneath = {
    opensForReading: async (path) => (path.includes('absent') ? 'No such file or directory' : null),
    opensLog: async () => null,
    bindsVsock: async (path) => {
      if (bound.includes(path)) return 'Address in use (os error 98)'
      bound.push(path)
      return null
    },
    boots: async () => null,
    pauses: async () => void did.push('pause'),
    resumes: async () => void did.push('resume'),
    saves: async () => null,
    loads: async () => machineOf(),
    ...over,
  }
  return { vmm: createVmm({ id: 'c-1', version: '1.16.1' }, underneath), bound, did }
}

type Call = [method: string, path: string, body: unknown]
const START: Call = ['PUT', '/actions', { action_type: 'InstanceStart' }]
const PAUSE: Call = ['PATCH', '/vm', { state: 'Paused' }]
const RESUME: Call = ['PATCH', '/vm', { state: 'Resumed' }]
const CREATE: Call = ['PUT', '/snapshot/create', { snapshot_path: '/state', mem_file_path: '/memory' }]
const backend = { backend_type: 'File', backend_path: '/memory' }
const LOAD: Call = [
  'PUT',
  '/snapshot/load',
  { snapshot_path: '/state', mem_backend: backend, resume_vm: true },
]
const LOGGER: Call = ['PUT', '/logger', { log_path: '/log' }]
const MACHINE: Call = ['PUT', '/machine-config', { vcpu_count: 1, mem_size_mib: 128 }]
const KERNEL: Call = ['PUT', '/boot-source', { kernel_image_path: '/kernel' }]
const drive = { drive_id: 'rootfs', path_on_host: '/rootfs', is_root_device: false, is_read_only: true }
const DRIVE: Call = ['PUT', '/drives/rootfs', drive]
const VSOCK: Call = ['PUT', '/vsock', { guest_cid: 3, uds_path: 'v.sock' }]
const ENTROPY: Call = ['PUT', '/entropy', {}]
const VERSION: Call = ['GET', '/version', null]

async function say(
  vmm: Vmm,
  [method, path, body]: Call,
): Promise<{ status: number; fault: string; ends: boolean }> {
  const text = body === null ? '' : JSON.stringify(body)
  const answer = await vmm.handle(method, path, text)
  const fault = (answer.body as { fault_message?: string } | null)?.fault_message ?? ''
  return { status: answer.status, fault, ends: answer.ends === true }
}
async function after(before: Call[], last: Call, over: Partial<Underneath> = {}) {
  const { vmm } = fresh(over)
  for (const call of before) expect((await say(vmm, call)).status).toBeLessThan(300)
  return await say(vmm, last)
}

test('accepts the calls of a cold boot, a snapshot, and a restore', async () => {
  const { vmm, did } = fresh()
  for (const call of [LOGGER, MACHINE, KERNEL, DRIVE, VSOCK, ENTROPY, START, PAUSE, CREATE])
    expect(await say(vmm, call)).toMatchObject({ status: 204 })
  expect(did).toEqual(['pause'])
  const clone = fresh()
  for (const call of [LOGGER, LOAD]) expect(await say(clone.vmm, call)).toMatchObject({ status: 204 })
  expect([clone.did, clone.bound]).toEqual([['resume'], ['v.sock']])
})

test.each<[string, Call[], Call, string]>([
  // rpc_interface.rs: handle_preboot_request and RuntimeApiController
  ['a second start', [KERNEL, START], START, FAULTS.afterBoot],
  ['a machine after boot', [KERNEL, START], MACHINE, FAULTS.afterBoot],
  ['a vsock after boot', [KERNEL, START], VSOCK, FAULTS.afterBoot],
  ['a logger after boot', [KERNEL, START], LOGGER, FAULTS.afterBoot],
  ['a load after boot', [KERNEL, START], LOAD, FAULTS.afterBoot],
  ['a second load', [LOAD], LOAD, FAULTS.afterBoot],
  ['a pause before boot', [], PAUSE, FAULTS.beforeBoot],
  ['a snapshot before boot', [], CREATE, FAULTS.beforeBoot],
  ['a snapshot while running', [KERNEL, START], CREATE, FAULTS.notPaused],
  ['a snapshot after a resume', [KERNEL, START, PAUSE, RESUME], CREATE, FAULTS.notPaused],
  ['a start without a kernel', [MACHINE], START, FAULTS.noKernel],
  // paths./snapshot/load: "before configuring any resource other than the Logger and Metrics"
  ...[MACHINE, KERNEL, DRIVE, VSOCK, ENTROPY].map((call): [string, Call[], Call, string] => [
    `a load after ${call[1]}`,
    [call],
    LOAD,
    FAULTS.loadTooLate,
  ]),
  // deny_unknown_fields
  ['an unknown field', [], ['PUT', '/entropy', { seed: 1 }], 'Unrecognized key'],
  [
    'a field that came later',
    [],
    ['PUT', '/snapshot/load', { ...(LOAD[2] as object), huge_pages: '2M' }],
    'huge_pages',
  ],
  ['an unknown state', [KERNEL, START], ['PATCH', '/vm', { state: 'Stopped' }], 'deserializing'],
  // api_server/request/snapshot.rs
  [
    'two memories',
    [],
    ['PUT', '/snapshot/load', { ...(LOAD[2] as object), mem_file_path: '/m' }],
    'too many fields',
  ],
  ['no memory', [], ['PUT', '/snapshot/load', { snapshot_path: '/state' }], 'missing field'],
  // machine_config.rs
  ['no vCPU', [], ['PUT', '/machine-config', { vcpu_count: 0, mem_size_mib: 128 }], FAULTS.vcpus],
  ['33 vCPUs', [], ['PUT', '/machine-config', { vcpu_count: 33, mem_size_mib: 128 }], FAULTS.vcpus],
  [
    '3 with SMT',
    [],
    ['PUT', '/machine-config', { vcpu_count: 3, mem_size_mib: 128, smt: true }],
    FAULTS.vcpus,
  ],
  ['no memory at all', [], ['PUT', '/machine-config', { vcpu_count: 1, mem_size_mib: 0 }], FAULTS.memory],
  // api_server/request/drive.rs
  ['another id in the body', [], ['PUT', '/drives/other', drive], FAULTS.driveId],
  [
    'an id with a hyphen',
    [],
    ['PUT', '/drives/root-fs', { ...drive, drive_id: 'root-fs' }],
    FAULTS.invalidId,
  ],
  ['no id', [], ['PUT', '/drives', drive], FAULTS.emptyId],
  [
    'a second root',
    [['PUT', '/drives/rootfs', { ...drive, is_root_device: true }]],
    ['PUT', '/drives/b', { ...drive, drive_id: 'b', is_root_device: true }],
    FAULTS.secondRoot,
  ],
  ['an absent image', [], ['PUT', '/drives/rootfs', { ...drive, path_on_host: '/absent' }], 'No such file'],
  ['an absent kernel', [], ['PUT', '/boot-source', { kernel_image_path: '/absent' }], 'cannot be opened'],
  // definitions.Vsock; vmm_config/vsock.rs
  ['a CID of the host', [], ['PUT', '/vsock', { guest_cid: 2, uds_path: 'v.sock' }], 'guest_cid'],
  ['a socket that is there', [VSOCK], VSOCK, 'Address in use'],
  // parsed_request.rs
  ['an empty PUT', [], ['PUT', '/logger', null], FAULTS.emptyPut],
  ['an empty PATCH', [], ['PATCH', '/vm', null], FAULTS.emptyPatch],
  ['a GET with a body', [], ['GET', '/version', {}], FAULTS.getBody],
  ['an unknown path', [], ['PUT', '/snapshots', {}], 'Invalid request method and/or path: PUT snapshots'],
  ['an unknown method', [], ['POST', '/actions', {}], 'Invalid request method and/or path: POST actions'],
  [
    'a long body',
    [],
    ['PUT', '/boot-source', { kernel_image_path: 'k'.repeat(PAYLOAD_BYTES) }],
    'larger than',
  ],
])('refuses %s', async (_title, before, last, words) => {
  const said = await after(before, last)
  expect(said).toMatchObject({ status: 400, ends: false })
  expect(said.fault).toContain(words)
})

test.each<[string, Partial<Underneath>, string]>([
  ['that is none', { loads: async () => 'no snapshot' }, 'no snapshot'],
  ['of another version', { loads: async () => machineOf({ version: '1.17.0' }) }, 'another version'],
  ['whose disk is gone', { opensForReading: async () => 'No such file' }, 'No such file'],
  ['whose socket is taken', { bindsVsock: async () => 'Address in use' }, 'Address in use'],
])('ends after the load of a snapshot %s', async (_title, over, words) => {
  const said = await after([], LOAD, over)
  expect(said).toMatchObject({ status: 400, ends: true })
  expect(said.fault).toContain(words)
})

test('refuses to override a vsock that the machine does not have', async () => {
  const given: Call = [
    'PUT',
    '/snapshot/load',
    { ...(LOAD[2] as object), vsock_override: { uds_path: 'w.sock' } },
  ]
  expect(await after([], given)).toMatchObject({ status: 204 })
  const without = { loads: async () => machineOf({ vsockPath: null }) }
  expect((await after([], given, without)).fault).toContain('Unknown vsock device')
})

test('stays paused after a load without resume', async () => {
  const { vmm, did } = fresh()
  await say(vmm, ['PUT', '/snapshot/load', { snapshot_path: '/state', mem_backend: backend }])
  expect(did).toEqual([])
  expect(await say(vmm, CREATE)).toMatchObject({ status: 204 })
})

/** xorshift32: the same orders in every run. */
function random(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

test('holds the rules of order in 500 random orders of calls', async () => {
  const all = [START, PAUSE, RESUME, CREATE, LOAD, LOGGER, MACHINE, KERNEL, DRIVE, ENTROPY, VERSION]
  for (let seed = 1; seed <= 500; seed++) {
    const next = random(seed * 7919)
    const { vmm } = fresh()
    // The model: these four facts decide every answer.
    let isStarted = false
    let isPaused = false
    let isTouched = false
    let hasKernel = false
    for (let step = 0; step < 12; step++) {
      const call = all[next(all.length)] ?? START
      const isPreBoot = [LOGGER, MACHINE, KERNEL, DRIVE, ENTROPY, LOAD].includes(call)
      let wanted = isPreBoot ? !isStarted : true
      if (call === START) wanted = !isStarted && hasKernel
      if (call === PAUSE || call === RESUME) wanted = isStarted
      if (call === CREATE) wanted = isStarted && isPaused
      if (call === LOAD) wanted = !isStarted && !isTouched
      const { status, ends } = await say(vmm, call)
      expect([call[1], status < 300, ends], `seed ${seed}, step ${step}`).toEqual([call[1], wanted, false])
      if ([MACHINE, KERNEL, DRIVE, ENTROPY].includes(call) && !isStarted) isTouched = true
      if (call === KERNEL && !isStarted) hasKernel = true
      if (wanted && (call === START || call === LOAD)) isStarted = true
      if (wanted && call === PAUSE) isPaused = true
      if (wanted && call === RESUME) isPaused = false
    }
  }
})
