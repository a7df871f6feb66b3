/**
 * The state of one Firecracker process, and its answers. Not started → running ⇄ paused; a load may also lead
 * from not started to paused. Each call is checked against rules.ts before anything is done. `underneath` has
 * what the calls act on: files, sockets, the guest.
 */
import { FAULTS, PAYLOAD_BYTES, RULES, type Rule } from './rules.ts'

/** A result of null means success. A string is the reason of the failure, in Firecracker's words. */
export interface Underneath {
  opensForReading(path: string): Promise<string | null>
  opensLog(path: string): Promise<string | null>
  bindsVsock(path: string): Promise<string | null>
  boots(machine: MachineConfig): Promise<string | null>
  pauses(): Promise<void>
  resumes(): Promise<void>
  saves(state: string, memory: string, machine: MachineConfig): Promise<string | null>
  /** The machine of the snapshot, or why it cannot be loaded. */
  loads(state: string, memory: string): Promise<MachineConfig | string>
}

export interface MachineConfig {
  version: string
  vcpus: number
  memoryMib: number
  drives: { drive_id: string; path_on_host: string; is_root_device: boolean }[]
  vsockPath: string | null
  kernel: string | null
  bootArgs: string
}

export interface Answer {
  status: number
  body: object | null
  /** The process ends after this answer (rpc_interface.rs, fatal_error). */
  ends?: true
}

export interface Vmm {
  handle(method: string, path: string, text: string): Promise<Answer>
}

const fault = (message: string, status = 400): Answer => ({ status, body: { fault_message: message } })
const done: Answer = { status: 204, body: null }

export function createVmm(options: { id: string; version: string }, underneath: Underneath): Vmm {
  let state: 'Not started' | 'Running' | 'Paused' = 'Not started'
  /** rpc_interface.rs, boot_path */
  let isBootPath = false
  const machine: MachineConfig = {
    version: options.version,
    vcpus: 1,
    memoryMib: 128,
    drives: [],
    vsockPath: null,
    kernel: null,
    bootArgs: '',
  }

  // The calls by the names of RULES. The schema of the rule has already checked `given`.
  const calls: Record<string, (given: never, path: string) => Promise<Answer>> = {
    instance: async () => ({
      status: 200,
      body: { app_name: 'Firecracker', id: options.id, state, vmm_version: options.version },
    }),
    version: async () => ({ status: 200, body: { firecracker_version: options.version } }),
    config: async () => ({
      status: 200,
      body: {
        'machine-config': { vcpu_count: machine.vcpus, mem_size_mib: machine.memoryMib },
        drives: machine.drives,
      },
    }),
    async logger({ log_path: path }: { log_path?: string }) {
      const problem = path === undefined ? null : await underneath.opensLog(path)
      return problem === null ? done : fault(`Logger error: ${problem}`)
    },
    metrics: async () => done,
    async machine(given: { vcpu_count: number; mem_size_mib: number; smt: boolean; huge_pages: string }) {
      const { vcpu_count: vcpus, mem_size_mib: memoryMib, smt } = given
      if (vcpus < 1 || vcpus > 32 || (smt && vcpus !== 1 && vcpus % 2 === 1)) return fault(FAULTS.vcpus)
      if (memoryMib === 0 || (given.huge_pages === '2M' && memoryMib % 2 === 1)) return fault(FAULTS.memory)
      Object.assign(machine, { vcpus, memoryMib })
      return done
    },
    async boot(given: { kernel_image_path: string; initrd_path?: string | null; boot_args?: string | null }) {
      const kernel = await underneath.opensForReading(given.kernel_image_path)
      if (kernel !== null) return fault(`Boot source error: The kernel file cannot be opened: ${kernel}`)
      const initrd = given.initrd_path == null ? null : await underneath.opensForReading(given.initrd_path)
      if (initrd !== null)
        return fault(
          'Boot source error: The initrd file cannot be opened due to invalid path or invalid ' +
            `permissions. ${initrd}`,
        )
      Object.assign(machine, { kernel: given.kernel_image_path, bootArgs: given.boot_args ?? '' })
      return done
    },
    async drive(given: MachineConfig['drives'][number], path) {
      const id = path.split('/')[2] ?? ''
      // parsed_request.rs, checked_id
      if (id === '') return fault(FAULTS.emptyId)
      if (!/^[\p{L}\p{N}_]+$/u.test(id)) return fault(FAULTS.invalidId)
      if (id !== given.drive_id) return fault(FAULTS.driveId)
      const others = machine.drives.filter(({ drive_id: other }) => other !== id)
      if (given.is_root_device && others.some(({ is_root_device: isRoot }) => isRoot))
        return fault(FAULTS.secondRoot)
      const problem = await underneath.opensForReading(given.path_on_host)
      if (problem !== null)
        return fault(`Drive config error: Unable to create the virtio block device: ${problem}`)
      machine.drives = [...others, given]
      return done
    },
    async vsock(given: { uds_path: string }) {
      // Firecracker binds the socket in this call, not at boot: src/vmm/src/vmm_config/vsock.rs,
      // create_unixsock_vsock
      const problem = await underneath.bindsVsock(given.uds_path)
      if (problem !== null)
        return fault(
          'Vsock config error: Cannot create backend for vsock device: Error binding to the ' +
            `host-side Unix socket: ${problem}`,
        )
      machine.vsockPath = given.uds_path
      return done
    },
    entropy: async () => done,
    async action({ action_type: action }: { action_type: string }) {
      if (action !== 'InstanceStart') return state === 'Not started' ? fault(FAULTS.beforeBoot) : done
      if (state !== 'Not started') return fault(FAULTS.afterBoot)
      if (machine.kernel === null) return fault(FAULTS.noKernel)
      const problem = await underneath.boots(machine)
      if (problem !== null) return fault(`Start microvm error: ${problem}`)
      state = 'Running'
      return done
    },
    // docs/snapshotting/snapshot-support.md: a second call of the same kind changes nothing.
    async state({ state: wanted }: { state: string }) {
      if (wanted === 'Paused' && state === 'Running') await underneath.pauses()
      if (wanted === 'Resumed' && state === 'Paused') await underneath.resumes()
      state = wanted === 'Paused' ? 'Paused' : 'Running'
      return done
    },
    async create(given: { snapshot_path: string; mem_file_path: string }) {
      if (state !== 'Paused') return fault(FAULTS.notPaused)
      const problem = await underneath.saves(given.snapshot_path, given.mem_file_path, machine)
      return problem === null ? done : fault(`Create snapshot error: ${problem}`)
    },
    load: (given) => load(given),
  }

  interface LoadBody {
    snapshot_path: string
    mem_file_path?: string
    mem_backend?: { backend_type: string; backend_path: string }
    resume_vm: boolean
    vsock_override?: { uds_path: string }
  }
  async function load(given: LoadBody): Promise<Answer> {
    if (isBootPath) return fault(FAULTS.loadTooLate)
    // "If restore fails, we consider the process is too dirty to recover": rpc_interface.rs, load_snapshot
    const fails = (why: string): Answer => ({
      ...fault(`Load snapshot error: Failed to restore from snapshot: ${why}`),
      ends: true,
    })
    if (given.mem_backend?.backend_type === 'Uffd') return fails('the double serves no Uffd')
    const memory = given.mem_backend?.backend_path ?? given.mem_file_path ?? ''
    const loaded = await underneath.loads(given.snapshot_path, memory)
    if (typeof loaded === 'string') return fails(loaded)
    if (loaded.version !== options.version) return fails('snapshot of another version')
    // "accessible at the same relative paths": docs/snapshotting/snapshot-support.md
    for (const { path_on_host: path } of loaded.drives) {
      const problem = await underneath.opensForReading(path)
      if (problem !== null) return fails(problem)
    }
    const override = given.vsock_override?.uds_path
    // persist.rs: an override without a device is UnknownVsockDevice
    if (override !== undefined && loaded.vsockPath === null) return fails('Unknown vsock device.')
    const vsock = override ?? loaded.vsockPath
    const problem = vsock === null ? null : await underneath.bindsVsock(vsock)
    if (problem !== null) return fails(problem)
    Object.assign(machine, loaded, { vsockPath: vsock })
    if (given.resume_vm) await underneath.resumes()
    state = given.resume_vm ? 'Running' : 'Paused'
    return done
  }

  return {
    async handle(method, path, text) {
      if (Buffer.byteLength(text) > PAYLOAD_BYTES)
        return fault(
          `Request payload with size ${Buffer.byteLength(text)} is larger than the limit of ` +
            `${PAYLOAD_BYTES} allowed by server.`,
        )
      if (method === 'GET' && text !== '') return fault(FAULTS.getBody)
      const found = Object.entries(RULES).find(([, rule]) => rule.method === method && rule.path.test(path))
      if (found === undefined) {
        if (method === 'PUT' && text === '') return fault(FAULTS.emptyPut)
        return fault(`Invalid request method and/or path: ${method} ${path.split('/')[1] ?? ''}.`)
      }
      const [name, rule] = found
      if (text === '' && method === 'PUT') return fault(FAULTS.emptyPut)
      if (text === '' && method === 'PATCH') return fault(FAULTS.emptyPatch)
      const given = bodyOf(rule, text)
      if ('problem' in given)
        return fault(`An error occurred when deserializing the json body of a request: ${given.problem}.`)
      const isStarted = state !== 'Not started'
      if (rule.phase === 'before boot' && isStarted) return fault(FAULTS.afterBoot)
      if (rule.phase === 'after boot' && !isStarted) return fault(FAULTS.beforeBoot)
      // The call counts even if it fails, because rpc_interface.rs sets boot_path first.
      if (rule.bootSpecific === true) isBootPath = true
      return (await calls[name]?.(given.body as never, path)) ?? fault('the double lacks this call')
    },
  }
}

function bodyOf(rule: Rule, text: string): { body: unknown } | { problem: string } {
  if (rule.schema === null) return { body: {} }
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
  const parsed = rule.schema.safeParse(json)
  if (parsed.success) return { body: parsed.data }
  const { path, message } = parsed.error.issues[0] ?? { path: [], message: 'invalid' }
  return { problem: path.length === 0 ? message : `${path.join('.')}: ${message}` }
}
