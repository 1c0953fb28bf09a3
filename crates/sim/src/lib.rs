//! Virtual-time executor, simulated devices, faults and power cuts
