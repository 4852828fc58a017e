"""Warnings: data that contradict the model, descents that stall, parameters no data tell apart."""

from postgrad.monitoring.assumptions import AssumptionWarning as AssumptionWarning
from postgrad.monitoring.misspecification import MisspecificationWarning as MisspecificationWarning
from postgrad.monitoring.misspecification import Monitor as Monitor
from postgrad.monitoring.progress_warnings import ConvergenceWarning as ConvergenceWarning
from postgrad.monitoring.progress_warnings import LockInWarning as LockInWarning
from postgrad.records.alarm import Alarm as Alarm
