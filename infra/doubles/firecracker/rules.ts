/**
 * The request bodies that Firecracker accepts, and its refusals. They are from its published description and
 * source (commit 81b38b9, 1.17.0-dev): src/firecracker/swagger/firecracker.yaml for fields and bounds;
 * `deny_unknown_fields` in src/vmm/src/vmm_config/*.rs for unknown ones; src/vmm/src/rpc_interface.rs for the
 * order of calls. Fields that 1.16.1 does not know are left out, so the double refuses them as that binary
 * does.
 */
import { z } from 'zod'

const path = z.string().min(1)
const int = z.int().min(0)
/** definitions.TokenBucket, definitions.RateLimiter */
const bucket = z.strictObject({ size: int, refill_time: int, one_time_burst: int.optional() })
const rateLimiter = z.strictObject({ bandwidth: bucket.optional(), ops: bucket.optional() })

/**
 * When a call is allowed (rpc_interface.rs: handle_preboot_request, RuntimeApiController::handle_request).
 */
export type Phase = 'before boot' | 'after boot' | 'always'

export interface Rule {
  method: 'GET' | 'PUT' | 'PATCH'
  /** Matches the path of a call. A path with an id (/drives/ID) is matched by its first part alone. */
  path: RegExp
  schema: z.ZodType | null
  phase: Phase
  /**
   * True if the call sets what a machine boots from. No snapshot may be loaded after it
   * (paths./snapshot/load).
   */
  bootSpecific?: boolean
}

export const RULES: Record<string, Rule> = {
  instance: { method: 'GET', path: /^\/$/, schema: null, phase: 'always' },
  version: { method: 'GET', path: /^\/version$/, schema: null, phase: 'always' },
  config: { method: 'GET', path: /^\/vm\/config$/, schema: null, phase: 'always' },
  /** definitions.Logger; src/vmm/src/logger/logging.rs, LoggerConfig */
  logger: {
    method: 'PUT',
    path: /^\/logger$/,
    schema: z.strictObject({
      log_path: path.optional(),
      level: z
        .string()
        .regex(/^(error|warn(ing)?|info|debug|trace|off)$/i)
        .optional(),
      show_level: z.boolean().optional(),
      show_log_origin: z.boolean().optional(),
      module: z.string().optional(),
    }),
    phase: 'before boot',
  },
  /** definitions.Metrics; its other fields came later */
  metrics: {
    method: 'PUT',
    path: /^\/metrics$/,
    schema: z.strictObject({ metrics_path: path }),
    phase: 'before boot',
  },
  /** definitions.MachineConfiguration; src/vmm/src/vmm_config/machine_config.rs, MachineConfigError */
  machine: {
    method: 'PUT',
    path: /^\/machine-config$/,
    schema: z.strictObject({
      vcpu_count: z.int().min(0).max(255),
      mem_size_mib: int,
      smt: z.boolean().default(false),
      track_dirty_pages: z.boolean().default(false),
      huge_pages: z.enum(['None', '2M']).default('None'),
      cpu_template: z.enum(['C3', 'T2', 'T2S', 'T2CL', 'T2A', 'V1N1', 'None']).optional(),
    }),
    phase: 'before boot',
    bootSpecific: true,
  },
  /** definitions.BootSource */
  boot: {
    method: 'PUT',
    path: /^\/boot-source$/,
    schema: z.strictObject({
      kernel_image_path: path,
      initrd_path: path.nullish(),
      boot_args: z.string().nullish(),
    }),
    phase: 'before boot',
    bootSpecific: true,
  },
  /** definitions.Drive, without the fields of vhost-user */
  drive: {
    method: 'PUT',
    path: /^\/drives(\/|$)/,
    schema: z.strictObject({
      drive_id: z.string(),
      is_root_device: z.boolean(),
      partuuid: z.string().nullish(),
      cache_type: z.enum(['Unsafe', 'Writeback']).default('Unsafe'),
      is_read_only: z.boolean(),
      path_on_host: path,
      rate_limiter: rateLimiter.nullish(),
      io_engine: z.enum(['Sync', 'Async']).nullish(),
    }),
    phase: 'before boot',
    bootSpecific: true,
  },
  /** definitions.Vsock: `guest_cid` has the minimum 3 */
  vsock: {
    method: 'PUT',
    path: /^\/vsock$/,
    schema: z.strictObject({
      guest_cid: z.int().min(3).max(0xffffffff),
      uds_path: path,
      vsock_id: z.string().nullish(),
    }),
    phase: 'before boot',
    bootSpecific: true,
  },
  /** definitions.EntropyDevice */
  entropy: {
    method: 'PUT',
    path: /^\/entropy$/,
    schema: z.strictObject({ rate_limiter: rateLimiter.nullish() }),
    phase: 'before boot',
    bootSpecific: true,
  },
  /** definitions.InstanceActionInfo; src/firecracker/src/api_server/request/actions.rs */
  action: {
    method: 'PUT',
    path: /^\/actions$/,
    schema: z.strictObject({ action_type: z.enum(['FlushMetrics', 'InstanceStart', 'SendCtrlAltDel']) }),
    // vmm.ts checks the phase by the type: InstanceStart is for before boot, the others for after.
    phase: 'always',
  },
  /** definitions.Vm */
  state: {
    method: 'PATCH',
    path: /^\/vm$/,
    schema: z.strictObject({ state: z.enum(['Paused', 'Resumed']) }),
    phase: 'after boot',
  },
  /** definitions.SnapshotCreateParams */
  create: {
    method: 'PUT',
    path: /^\/snapshot\/create$/,
    schema: z.strictObject({
      snapshot_type: z.enum(['Full', 'Diff']).default('Full'),
      snapshot_path: path,
      mem_file_path: path,
    }),
    phase: 'after boot',
  },
  /**
   * definitions.SnapshotLoadParams, without `huge_pages`, which came after 1.16. Exactly one of the two
   * `mem_*` fields must be set (src/firecracker/src/api_server/request/snapshot.rs). Only the overrides
   * accept unknown fields (src/vmm/src/vmm_config/snapshot.rs).
   */
  load: {
    method: 'PUT',
    path: /^\/snapshot\/load$/,
    schema: z
      .strictObject({
        snapshot_path: path,
        mem_file_path: path.optional(),
        mem_backend: z
          .strictObject({ backend_type: z.enum(['File', 'Uffd']), backend_path: path })
          .optional(),
        enable_diff_snapshots: z.boolean().default(false),
        track_dirty_pages: z.boolean().default(false),
        resume_vm: z.boolean().default(false),
        network_overrides: z.array(z.object({ iface_id: z.string(), host_dev_name: z.string() })).default([]),
        vsock_override: z.object({ uds_path: path }).optional(),
        clock_realtime: z.boolean().default(false),
      })
      .refine(
        ({ mem_file_path: file, mem_backend: backend }) => file === undefined || backend === undefined,
        {
          error: 'too many fields: either `mem_backend` or `mem_file_path` exclusively is required',
        },
      )
      .refine(
        ({ mem_file_path: file, mem_backend: backend }) => file !== undefined || backend !== undefined,
        {
          error: 'missing field: either `mem_backend` or `mem_file_path` is required',
        },
      ),
    phase: 'before boot',
  },
}

/** rpc_interface.rs, VmmActionError */
export const FAULTS = {
  afterBoot: 'The requested operation is not supported after starting the microVM.',
  beforeBoot: 'The requested operation is not supported before starting the microVM.',
  /** LoadSnapshotError::LoadSnapshotNotAllowed */
  loadTooLate:
    'Load snapshot error: Loading a microVM snapshot not allowed after configuring boot-specific resources.',
  /** machine_config.rs */
  vcpus:
    'Machine config error: The number of vCPUs must be greater than 0, less than 32 and must be 1 or ' +
    'an even number if SMT is enabled.',
  memory:
    'Machine config error: The memory size (MiB) is either 0, or not a multiple of the configured page size.',
  /** api_server/request/drive.rs */
  driveId: 'The id from the path does not match the id from the body!',
  emptyId: 'The ID cannot be empty.',
  invalidId: 'API Resource IDs can only contain alphanumeric characters and underscores.',
  secondRoot: 'Drive config error: A root block device already exists!',
  /** builder.rs, StartMicrovmError::MissingKernelConfig */
  noKernel: 'Start microvm error: Cannot start microvm without kernel configuration.',
  /** docs/snapshotting/snapshot-support.md: "Prerequisites: The microVM is Paused." */
  notPaused:
    'Create snapshot error: Cannot save the microVM state: Operation not allowed: save/restore ' +
    'unavailable while running',
  /** parsed_request.rs, method_to_error */
  emptyPut: 'Empty PUT request.',
  emptyPatch: 'Empty PATCH request.',
  getBody: 'GET request cannot have a body.',
} as const

/** src/firecracker/src/api_server/mod.rs, HTTP_MAX_PAYLOAD_SIZE */
export const PAYLOAD_BYTES = 51_200

/** src/vmm/src/devices/virtio/vsock/unix/mod.rs, MAX_CONNECTIONS */
export const VSOCK_CONNECTIONS = 1023

/** `sun_path` of unix(7), without the final zero byte. */
export const SOCKET_PATH_BYTES = 107
