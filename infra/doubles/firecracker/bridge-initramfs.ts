/**
 * Extends the image’s initramfs for a machine without a vsock device. A second archive follows the image’s,
 * and the kernel unpacks both. The second one has the bridge, which stands in for the device, and a script
 * that runs before the image’s own `/init`.
 */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { cpio } from '../../images/microvm/initramfs.ts'

const BRIDGE = fileURLToPath(new URL('guest/serial_bridge.py', import.meta.url))

/**
 * Argument of the kernel’s command line. It makes the kernel run the script below before the image’s `/init`.
 */
export const BRIDGE_ARGUMENT = 'rdinit=/bridge'

/**
 * Loads the modules in the order of their dependencies. The image’s script then fails to load the first two
 * again, which changes nothing.
 */
const SCRIPT = `#!/bin/busybox sh
b=/bin/busybox
for name in vsock vmw_vsock_virtio_transport_common vsock_loopback; do $b insmod /modules/$name.ko; done
$b cat /serial_bridge.py /vm_init.py >/both.py
$b mv /both.py /vm_init.py
exec /init
`

/** Returns the image’s initramfs, read from the path `initramfs`, followed by the second archive. */
export async function withBridge(initramfs: string): Promise<Buffer> {
  const more = cpio([
    { path: 'bridge', mode: 0o100755, bytes: Buffer.from(SCRIPT) },
    { path: 'serial_bridge.py', mode: 0o100644, bytes: readFileSync(BRIDGE) },
  ])
  return Buffer.concat([await readFile(initramfs), more])
}
