/** See build-dashboard.mjs. */
export function buildDashboard(root: string, node?: string): Promise<'none' | 'kept' | 'built'>
