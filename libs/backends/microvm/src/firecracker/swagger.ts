/**
 * The calls that the engine makes, with bodies as the published description has them: Firecracker's
 * src/firecracker/swagger/firecracker.yaml (1.17.0-dev, commit 81b38b9). Every type names its definition
 * there. Only fields that 1.16.1 knows are sent, because it answers 400 to any other
 * (`deny_unknown_fields` in src/vmm/src/vmm_config/*.rs).
 */

export interface ApiCall {
  method: 'GET' | 'PUT' | 'PATCH'
  path: string
  /** Null for a GET, which must have none. */
  body: object | null
}

/** definitions.Logger */
interface Logger {
  log_path: string
  level: 'Error' | 'Warning' | 'Info'
  show_level: boolean
  show_log_origin: boolean
}

/** definitions.MachineConfiguration */
interface MachineConfiguration {
  /** 1 to 32. */
  vcpu_count: number
  mem_size_mib: number
  smt: boolean
  track_dirty_pages: boolean
}

/** definitions.BootSource */
interface BootSource {
  kernel_image_path: string
  initrd_path: string
  boot_args: string
}

/** definitions.Drive */
interface Drive {
  /** The same as in the path. */
  drive_id: string
  path_on_host: string
  is_root_device: boolean
  is_read_only: boolean
  cache_type: 'Unsafe' | 'Writeback'
  io_engine: 'Sync' | 'Async'
}

/** definitions.Vsock; guest_cid is at least 3. */
interface Vsock {
  guest_cid: number
  uds_path: string
}

/** definitions.SnapshotCreateParams */
interface SnapshotCreateParams {
  snapshot_type: 'Full'
  snapshot_path: string
  mem_file_path: string
}

/** definitions.SnapshotLoadParams; `vsock_override` and `clock_realtime` exist from 1.16.0. */
interface SnapshotLoadParams {
  snapshot_path: string
  mem_backend: { backend_type: 'File'; backend_path: string }
  resume_vm: boolean
  clock_realtime: boolean
  vsock_override: { uds_path: string }
}

const put = <Body extends object>(path: string, body: Body): ApiCall => ({ method: 'PUT', path, body })

/** paths./version */
export const getVersion = (): ApiCall => ({ method: 'GET', path: '/version', body: null })

/** paths./logger, before boot or load. */
export const putLogger = (logPath: string): ApiCall =>
  put<Logger>('/logger', { log_path: logPath, level: 'Warning', show_level: true, show_log_origin: false })

/** paths./machine-config, before boot. Without SMT any number of vCPUs from 1 to 32 is allowed. */
export const putMachineConfig = (machine: { vcpus: number; memoryMib: number }): ApiCall =>
  put<MachineConfiguration>('/machine-config', {
    vcpu_count: machine.vcpus,
    mem_size_mib: machine.memoryMib,
    smt: false,
    track_dirty_pages: false,
  })

/** paths./boot-source, before boot. Given arguments replace Firecracker's own. */
export const putBootSource = (boot: { kernel: string; initramfs: string; args: string }): ApiCall =>
  put<BootSource>('/boot-source', {
    kernel_image_path: boot.kernel,
    initrd_path: boot.initramfs,
    boot_args: boot.args,
  })

/**
 * paths./drives/{drive_id}, before boot. Not `is_root_device`: that would add `root=/dev/vda` to the
 * arguments, and the initramfs mounts it by itself.
 */
export const putReadOnlyDrive = (id: string, path: string): ApiCall =>
  put<Drive>(`/drives/${id}`, {
    drive_id: id,
    path_on_host: path,
    is_root_device: false,
    is_read_only: true,
    cache_type: 'Unsafe',
    io_engine: 'Sync',
  })

/** paths./vsock, before boot. The socket is bound in this call, so its file must not exist. */
export const putVsock = (path: string): ApiCall => put<Vsock>('/vsock', { guest_cid: 3, uds_path: path })

/** paths./entropy, before boot. */
export const putEntropy = (): ApiCall => put('/entropy', {})

/** paths./actions, once. */
export const startInstance = (): ApiCall => put('/actions', { action_type: 'InstanceStart' })

/** paths./vm, after boot. */
export const pauseMachine = (): ApiCall => ({ method: 'PATCH', path: '/vm', body: { state: 'Paused' } })

/** paths./snapshot/create, while paused. */
export const createSnapshot = (files: { state: string; memory: string }): ApiCall =>
  put<SnapshotCreateParams>('/snapshot/create', {
    snapshot_type: 'Full',
    snapshot_path: files.state,
    mem_file_path: files.memory,
  })

/**
 * paths./snapshot/load, in a process that was given nothing but a logger. The process ends if the load fails.
 */
export const loadSnapshot = (files: { state: string; memory: string; vsock: string }): ApiCall =>
  put<SnapshotLoadParams>('/snapshot/load', {
    snapshot_path: files.state,
    mem_backend: { backend_type: 'File', backend_path: files.memory },
    resume_vm: true,
    clock_realtime: true,
    vsock_override: { uds_path: files.vsock },
  })
