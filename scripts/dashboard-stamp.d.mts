/** See dashboard-stamp.mjs. */
export const DASHBOARD: string
export function hasDashboard(root: string): boolean
export function dashboardStamp(root: string): string
